"""clickhouse-driver, and what is worked around in it."""
