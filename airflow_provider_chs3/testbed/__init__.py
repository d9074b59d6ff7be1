"""A local ClickHouse cluster and S3 server, for tests and for the demo. Nothing else in this package imports it."""
