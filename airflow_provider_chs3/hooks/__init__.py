"""Where the package meets the outside: ClickHouse and S3."""
