"""Connections to ClickHouse and S3."""
