"""Transfers: load periods from storages and databases into ClickHouse, unload them, and land messages."""
