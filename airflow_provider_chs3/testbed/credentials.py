"""The users of the test bed. Their passwords hold what breaks careless quoting: they are no secret, they are a test."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Credentials:
    """A user's name and password."""

    login: str
    password: str = field(repr=False)


LOADER = Credentials("loader", "l'o%40@d/\"e\\r:?#&")
READER = Credentials("reader", "re@der/%s")

#: May do what loads, plans, the ledger's commands and merge health need in databases of tests, and nothing else:
#: docs/privileges.md.
NARROW = Credentials("narrow", "n'arr\\ow")

_SYSTEM_TABLES = (
    "asynchronous_metrics",
    "clusters",
    "data_skipping_indices",
    "disks",
    "macros",
    "merge_tree_settings",
    "merges",
    "metrics",
    "mutations",
    "parts",
    "processes",
    "projections",
    "replicas",
    "replicated_merge_tree_settings",
    "replication_queue",
    "server_settings",
    "storage_policies",
)

NARROW_PRIVILEGES = (
    *(f"SELECT ON system.{name}" for name in _SYSTEM_TABLES),
    "SHOW TABLES, SHOW COLUMNS, SELECT, INSERT, ALTER DELETE, CREATE TABLE, DROP TABLE ON test_*.*",
    "TABLE ENGINE ON MergeTree",
    "CREATE TEMPORARY TABLE ON *.*",
    "READ ON S3",
    # The engine is a clickhouse-local, which asks for it wherever anything is read; servers do not.
    "READ ON FILE",
    "READ, WRITE ON REMOTE",
    "NAMED COLLECTION ON *",
)
