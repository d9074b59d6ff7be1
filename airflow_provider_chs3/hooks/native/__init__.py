"""clickhouse-driver, and workarounds for it."""
