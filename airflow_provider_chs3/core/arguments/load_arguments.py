"""The arguments of operators that work period by period: those of their own, and those in groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.arguments.check_arguments import Checks
from airflow_provider_chs3.core.arguments.declaration import (
    CONFIGURED,
    REQUIRED,
    Argument,
    Group,
    argument,
    check_names,
    declared,
    flag,
    is_of_a_run,
)
from airflow_provider_chs3.exceptions import ConfigurationError

FORMAT_NAMES = (
    *("Parquet", "ORC", "Arrow", "Native", "CSV", "CSVWithNames", "TabSeparated", "TabSeparatedWithNames"),
    "JSONEachRow",
)
COMPRESSION_NAMES = ("auto", "none", "gzip", "zstd", "lz4", "xz", "br", "deflate", "snappy", "bz2")
_BY_ENDING = "detected from the keys' endings"
#: The policy for rows of other periods by which objects are loaded as they arrive.
_SPREAD = "spread"


@dataclass(frozen=True, kw_only=True)
class Proof(Group):
    """Proofs that files were read whole."""

    group = "files"

    count_again: bool = argument(
        False, "Whether to read text twice to count its rows, even where the insert's own read is proof."
    )
    unproved_codecs: str = argument(
        "refuse",
        "`refuse` compressed objects that nothing proves to be whole, or `load` them.",
        choices=("refuse", "load"),
    )


@dataclass(frozen=True, kw_only=True)
class Files(Proof):
    """Ways to read files."""

    file_format: str | None = argument(
        None, "A format such as `Parquet` or `CSVWithNames`.", choices=FORMAT_NAMES, without=_BY_ENDING
    )
    compression: str | None = argument(None, "A method such as `gzip`.", choices=COMPRESSION_NAMES, without=_BY_ENDING)


@dataclass(frozen=True, kw_only=True)
class Casts(Group):
    """Conversions of values that a column cannot hold as they are."""

    group = "casts"

    null_as_default: bool = argument(
        False, "Whether NULL in a column that cannot hold it becomes its default, instead of an error."
    )
    lossy_columns: tuple[str, ...] = argument(
        (),
        "Columns whose values may be truncated: digits beyond the scale, parts of a second, the time of day; doubles "
        "are rounded.",
        without="none; such a value is an error",
    )
    naive_timestamps: str | None = argument(
        None,
        "The zone of timestamps without one in files that carry types: `utc`, or `column_zone`, the zone of their "
        "column.",
        choices=("utc", "column_zone"),
        without="an error where the two differ",
    )


@dataclass(frozen=True, kw_only=True)
class Increments(Group):
    """Loads of only the new objects of a period."""

    group = "increments"

    incremental: bool = argument(True, "Whether to load only the new objects if nothing else of the period changed.")
    max_increments: int = argument(
        30, "Load a period whole after this many such loads, if merges remove rows of its table.", least=0
    )
    object_column: str | None = argument(
        None,
        "A column that `select` fills with `_path`: if objects are overwritten or deleted, only their rows are "
        "replaced.",
        without="none; the period is loaded whole",
    )


@dataclass(frozen=True, kw_only=True)
class PolicyGroup(Group):
    """Decisions of a load in special cases."""

    group = "policies"

    on_no_objects: str = argument(
        "fail",
        "If the period has no objects: `fail` (a retry helps if they arrive late), `skip` the period, or publish it "
        "`empty`.",
        choices=("fail", "skip", "empty"),
    )
    ready_key: str | None = argument(
        None,
        "An object that must exist, such as `_SUCCESS`; a name without `/` is looked up beside the period's objects. "
        "It may be a template.",
    )
    min_object_age_seconds: float = argument(
        0, "Minimum age of the objects, in seconds; if one is younger, the task fails for a retry.", least=0
    )
    max_shrink_fraction: float = argument(
        0.5, "The largest fraction of its published bytes that a period may lose; see `on_shrink`.", least=0, most=1
    )
    on_shrink: str = argument(
        "fail", "If it lost more: `fail`, or `hold` its rows (see `on_failed_check`).", choices=("fail", "hold")
    )
    on_other_periods: str = argument(
        "fail",
        "`fail`; `leave_out` rows that belong to another period; or `spread` them: periods are then those in which "
        "objects arrive, and their rows are added to the periods of the table that they belong to.",
        choices=("fail", "leave_out", _SPREAD),
    )
    max_late_days: float | None = argument(
        None,
        "How many days before its arrival the period of a row may begin, with `on_other_periods='spread'`: an object "
        "with older rows is an error.",
        above=0,
        without="rows may be of any time",
    )
    on_deleted_objects: str = argument(
        "fail",
        "If a loaded object is gone, with `on_other_periods='spread'`: `fail`, `remove` its rows, or `keep` them. An "
        "object of an arrival that the load does not list is not gone.",
        choices=("fail", "remove", "keep"),
    )
    on_target_changed: str = argument(
        "fail",
        "If others changed the period since it was published: `fail`, `reload` it, or `hold` its new rows, also if no "
        "known load has written what is there.",
        choices=("fail", "reload", "hold"),
    )
    replace_unknown: bool = argument(
        False, "Whether to replace rows that no known load has written, instead of stopping."
    )
    reload_whole_table: bool = argument(
        False, "Whether to load a table without partitions whole again where new objects cannot be added, or to stop."
    )
    on_new_columns: str = argument(
        "warn",
        "If files have columns that the table lacks: `warn` in the log, `fail`, or `add` them to it on every node, and "
        "load them.",
        choices=("warn", "fail", "add"),
    )
    on_failed_check: str = argument(
        "fail",
        "If a check fails: `fail`, and publish nothing of the period, `warn` in the log, and publish it, or `hold` its "
        "rows until somebody approves or discards them.",
        choices=("fail", "warn", "hold"),
    )
    hold_limit_days: float = argument(
        7, "Days after which rows that are held cannot be approved, and the period is loaded again.", above=0
    )
    keep_versions: int = argument(
        0, "How many earlier versions of each period to keep for `chs3 restore`, as links to its parts.", least=0
    )

    @property
    def is_by_arrival(self) -> bool:
        """Return whether periods are those in which objects arrive."""
        return self.on_other_periods == _SPREAD


@dataclass(frozen=True, kw_only=True)
class MemoryShare(Group):
    """The share of the nodes' memory that loads may use."""

    group = "tuning"

    #: A load that shares its cluster takes half of the memory (ClickHouse, "Optimizing S3 insert and read
    #: performance").
    memory_share: float = argument(
        0.5,
        "Fraction of each node's memory that all loads together may use; 1 suits a load that runs alone.",
        above=0,
        most=1,
    )


@dataclass(frozen=True, kw_only=True)
class Tuning(MemoryShare):
    """The size of the nodes, and the share that loads may use."""

    node_specs: Mapping[str, Any] | None = argument(
        None,
        'Host, `host:port` or `default` → `{"cores": 8, "memory": "32GiB"}`. They override the connection\'s, which '
        "override the nodes' macros `cores` and `memory`.",
        without="what is not declared is measured",
    )


#: The groups, by the argument that has each. `csv` is another one, `core.files.text_fields.Dialect`.
GROUPS: Mapping[str, type[Group]] = {
    group.group: group for group in (Files, Casts, Increments, PolicyGroup, Checks, Tuning)
}


def _group(name: str, help: str) -> Argument:
    names = ", ".join(f"`{argument}`" for argument in declared(GROUPS[name]))
    return Argument(name=name, help=f"{help}: {names}.", type="Mapping[str, Any] | str | None")


def _conn_id(name: str, help: str, *, type: str = "str") -> Argument:
    without = f"Airflow's `[chs3] {name}`, `{name.removesuffix('_conn_id').replace('clickhouse', 'chs3')}_default`"
    return Argument(name=name, help=help, type=type, default=CONFIGURED, option=f"chs3.{name}", without=without)


NAME = Argument(
    name="name",
    help="The load's name in a file of loads, and of its group of tasks.",
    without="the table's, without the database",
    is_template=False,
)
LOAD = Argument(
    name="load",
    help="The load as a value, `airflow_provider_chs3.load.Load`, in place of its arguments.",
    type="Load | None",
    is_template=False,
)
TABLE = Argument(
    name="table",
    help="A MergeTree table on every node of `cluster`, partitioned by period or not; or a Distributed table over it.",
    type="str",
    default=REQUIRED,
)
TIMEZONE = Argument(name="timezone", help="Time zone in which periods begin and end.", without="the DAG's")
DATABASE = Argument(
    name="database",
    help="The table's database.",
    without="the one in `table` (`taxi.trips`), else the connection's",
)
CLUSTER = Argument(
    name="cluster",
    help="The cluster of the table's nodes.",
    without="the Distributed table's, else the connection's, else none: the one server that the connection leads to",
)
STAGING_DATABASE = Argument(
    name="staging_database", help="Database of staging and ledger, on every node.", without="the table's"
)
CLICKHOUSE_CONN_ID = _conn_id("clickhouse_conn_id", "Connection of type `chs3`.")
AWS_CONN_ID = _conn_id(
    "aws_conn_id",
    "AWS connection for listing, and for the servers' reads. None: a public bucket, read without keys.",
    type="str | None",
)
OBJECTS = Argument(
    name="objects",
    help="Objects in a storage other than S3, such as `airflow_provider_chs3.sources.azure.AzureBlobs`, or in S3 with "
    "other access than the connection's, `S3Objects`; in place of `key`, `bucket` and `aws_conn_id`.",
    type="Storage | None",
)
KEY = Argument(
    name="key",
    help="Template of the keys: `trips/{YYYY-MM}/*.parquet`, `year={YYYY}/month={MM}/`; with the bucket, a URL: "
    "`s3://lake/trips/{YYYY-MM}/*.parquet`.",
    type="str | ObjectStoragePath | None",
)
BUCKET = Argument(name="bucket", help="The bucket of the objects, unless `key` names it.")
PERIOD = Argument(
    name="period",
    help="The period, such as `2026-10`, `2026-10-05` or `all`.",
    without="the run's partition key, else the period of its data interval; in a run that asks to reload a period, "
    "that one",
)
PERIODS = Argument(
    name="periods",
    help="Periods, such as `2026-10` or `2026-10-05`, as a list or separated by commas.",
    type="Sequence[str] | str | None",
)
PERIODS_OF_LOAD = Argument(
    name="periods",
    help="Instead of `period`, several periods, as a list or separated by commas; if the list is empty, the "
    "task is skipped.",
    type="Sequence[str] | str | None",
    without="the one in `period`",
)
COLUMNS = Argument(
    name="columns",
    help="Columns to load.",
    type="Sequence[str] | None",
    without="all columns that the table accepts",
)
SELECT = Argument(
    name="select",
    help="Instead of `columns`: column of the table → row-wise expression over the files' columns, which are strings "
    "in text formats.",
    type="Mapping[str, str] | str | None",
)
CSV = Argument(
    name="csv",
    help="The CSV dialect: `delimiter`, `quote`, `null`, `skip_lines`, `trim`, `blank_lines` (see "
    "`core.files.text_fields.Dialect`).",
    type="Mapping[str, Any] | str | None",
    without="commas, double quotes, and a backslash with N for NULL",
)
FILES = _group("files", "How files are read")
CASTS = _group("casts", "How values are converted that a column cannot hold as they are")
INCREMENTS = _group("increments", "Whether only the new objects of a period are loaded")
POLICIES = _group("policies", "The reactions of a load to special cases")
CHECKS = _group("checks", "Conditions that a period's rows must meet before they are published")
TUNING = _group("tuning", "The size of the nodes, and the share that loads may use")
DISTRIBUTION = Argument(
    name="distribution",
    help="`where_read`: each node keeps the rows of the files that it reads, which is fast. `sharding_key`: one node "
    "sends each row to its shard by the Distributed table's sharding key.",
    type="str",
    default="where_read",
    choices=("where_read", "sharding_key"),
)
CREATE_TABLE = Argument(
    name="create_table",
    help="`never`, or `if_missing`: create it on every node from the files, by month or `period`, as `chs3 ddl` does.",
    type="str",
    default="never",
    choices=("never", "if_missing"),
)
VIEWS = Argument(
    name="views",
    help="Materialized views do not see replaced partitions: `warn` in the log, or load their tables, too (`follow`).",
    type="str",
    default="warn",
    choices=("warn", "follow"),
)
FRESH_BY = Argument(
    name="fresh_by",
    help="When a period is due that has ended: at a time of the day, `07:00` in `timezone`, or so many hours after its "
    "end, `6h`. `chs3 status`, plans, the loads page and metrics then say whether the table is fresh.",
)
SETTINGS = Argument(
    name="settings",
    help="ClickHouse settings for the insert; they override computed ones.",
    type="Mapping[str, str | int | float | bool] | str | None",
)
PARALLEL_LOADS = Argument(
    name="parallel_loads",
    help="Number of periods that share cores and memory.",
    type="int | None",
    without="as many as keep all cores busy",
    least=1,
    is_template=False,
)
PROGRESS_INTERVAL_SECONDS = Argument(
    name="progress_interval_seconds",
    help="Seconds between two lines of progress in the log.",
    type="float",
    option="chs3.progress_interval_seconds",
    without="Airflow's `[chs3] progress_interval_seconds`, 10",
    is_template=False,
)
DEFERRABLE = flag(
    "deferrable",
    "Whether to free the worker while ClickHouse works: the triggerer waits, and a retry resumes it.",
    option="operators.default_deferrable",
)
DURABLE = flag("durable", "Whether a retry resumes the insert of a worker that was killed; always so if `deferrable`.")
CANCEL_ON_KILL = flag(
    "cancel_on_kill",
    "Whether to end the task's work on all nodes if a person fails or clears the task, or the worker has to stop.",
    default=True,
)
WAIT_FOR_MERGES = flag(
    "wait_for_merges",
    "Whether to wait until the period's merges have settled, too; `scheduled_load` has a sensor for it, shown as a "
    "separate task.",
)
MERGE_HEALTH = Argument(
    name="merge_health",
    help="Arguments of `ClickHouseMergeHealthSensor`, such as `on_stuck` or `settled_after_seconds`.",
    type="Mapping[str, Any] | None",
)

LOOKBACK = Argument(
    name="lookback",
    help="Check the run's periods, those of its data interval, and this many periods before the last of them. "
    "Those that were never loaded and have no objects are skipped.",
    type="int | str | None",
    least=0,
)
LAST_PERIOD = Argument(
    name="last_period",
    help="The period to look back from, such as `2026-10`.",
    without="the run's last period, which needs a data interval or a partition key",
)
ALL_PERIODS = flag("all_periods", "Whether to take all periods in the bucket.")
PERIODS_PER_TASK = Argument(
    name="periods_per_task",
    help="Group small periods, at most this many of them and 1 GiB of objects, for the argument `periods` of a load.",
    type="int | None",
    without="no groups",
    least=1,
    is_template=False,
)
OLDER_THAN_SECONDS = Argument(
    name="older_than_seconds",
    help="Minimum age of the staging tables to drop, in seconds. Set more than the longest load takes, because an "
    "older load is ended even if it still runs.",
    type="float | str",
    default=24 * 60 * 60,
    least=0,
)
VERSION = Argument(
    name="version",
    help="The attempt that had published the rows to restore, as `chs3 versions` shows it.",
    without="the newest version that is not what the table holds",
)
REPLACE_CHANGED = flag(
    "replace_changed", "Whether to restore a period that somebody changed since it was published: a DELETE is undone."
)
DRY_RUN_ONLY = flag("dry_run_only", "Whether to only report the tables, and drop none.")

#: In the order of the operators' signatures.
OF_PERIOD_TASKS = (LOAD, TABLE, TIMEZONE, DATABASE, CLUSTER, STAGING_DATABASE, CLICKHOUSE_CONN_ID, OBJECTS)
OF_S3 = (KEY, BUCKET, AWS_CONN_ID)
OF_LOADS = (
    *(PERIOD, PERIODS_OF_LOAD, COLUMNS, SELECT, CSV, FILES, CASTS, DISTRIBUTION, SETTINGS, CREATE_TABLE, VIEWS),
    *(FRESH_BY, POLICIES, CHECKS, INCREMENTS, TUNING, PARALLEL_LOADS, PROGRESS_INTERVAL_SECONDS, CANCEL_ON_KILL),
    *(DEFERRABLE, DURABLE, WAIT_FOR_MERGES, MERGE_HEALTH),
)
#: Those that a plan and a proof compare by, and those that may stop the load.
COMPARED = (COLUMNS, SELECT, CSV, FILES, CASTS, POLICIES, INCREMENTS, DISTRIBUTION, SETTINGS)
OF_PLANS = (PERIODS, LOOKBACK, LAST_PERIOD, ALL_PERIODS, *COMPARED, PERIODS_PER_TASK, CREATE_TABLE, VIEWS, FRESH_BY)
OF_ADOPTION = (PERIODS, ALL_PERIODS, *COMPARED)
OF_APPROVAL = (PERIODS, *COMPARED)
OF_CLEANING = (DATABASE, CLUSTER, OLDER_THAN_SECONDS, DRY_RUN_ONLY, CLICKHOUSE_CONN_ID)
OF_RESTORING = (VERSION, REPLACE_CHANGED)
OF_LEDGERS = (LOAD, TABLE, PERIODS, DATABASE, CLUSTER, STAGING_DATABASE, CLICKHOUSE_CONN_ID)


def check_groups(given: Mapping[str, Any]) -> None:
    """Check the names in those groups that are dicts already, not yet files or outputs of other tasks."""
    for name, kind in GROUPS.items():
        if isinstance(values := given.get(name), Mapping):
            check_names(name, values, declared(kind))


def check_place(given: Mapping[str, Any]) -> None:
    """Check that the arguments of a load say once where its objects are."""
    of_s3 = [name for name in ("key", "bucket") if given[name]]
    if given["objects"] is not None and of_s3:
        raise ConfigurationError(f"{', '.join(of_s3)}: objects=… says where the objects are; leave this out.")
    if given["objects"] is None and given["key"] is None:
        raise ConfigurationError("Nothing says where the objects are: set key=… and bucket=…, or objects=….")
    if of_s3 == ["key"] and not is_of_a_run(key := given["key"]) and "://" not in str(key):
        raise ConfigurationError(f"No bucket: set bucket=…, or name it with key={key!r}: s3://my-bucket/…")


def is_by_arrival(policies: object) -> bool:
    """Check whether policies, as they are given, have periods mean those in which objects arrive."""
    return isinstance(policies, Mapping) and policies.get("on_other_periods") == _SPREAD
