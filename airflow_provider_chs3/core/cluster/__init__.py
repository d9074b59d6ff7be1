"""The nodes and the table on them: where it is, which of its replicas are up, and what each node has."""
