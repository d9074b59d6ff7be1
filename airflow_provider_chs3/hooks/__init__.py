"""Where the package meets the outside: ClickHouse and S3."""

#: The connection that is taken where none is named; here, so that reading a DAG need not import the hook.
DEFAULT_CONN_ID = "chs3_default"
