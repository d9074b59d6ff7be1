"""Transfers: load months from storages and databases into ClickHouse, unload them, and land messages."""
