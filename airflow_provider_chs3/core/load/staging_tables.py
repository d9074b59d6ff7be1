"""Create the staging table of an attempt, shaped as the target, and move partitions between tables."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from airflow_provider_chs3.core.ledger.table import DURABLE, durable_settings
from airflow_provider_chs3.core.model.error_codes import BAD_ARGUMENTS, INCOMPATIBLE_COLUMNS, QUERY_WAS_CANCELLED
from airflow_provider_chs3.core.model.models import ADAPTIVE_BUFFERS, Node, SettingValues, TableName
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period, range_text
from airflow_provider_chs3.core.sql.quoting import Sql, items, literal, literals, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.replication import create_table
from airflow_provider_chs3.core.tuning.insert_settings import DDL_SETTINGS
from airflow_provider_chs3.exceptions import ClickHouseServerError, SupersededError, TransientError

#: Published parts are compared with the staged ones, and replicas merge at different times. If the engine merges rows,
#: older servers keep the level of parts in REPLACE PARTITION (seen on 25.8, not on 26.9), and FINAL expects no equal
#: keys in merged parts: it returned 20 rows instead of 5.
_WITHOUT_MERGES = (
    "max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1, "
    "parts_to_delay_insert = 1000000, parts_to_throw_insert = 1000000"
)

#: From this many columns, their buffers matter: 2 MB per column and part being written. By default, servers use small
#: buffers from 500 columns; with 300, small ones halve the memory of an insert (measured).
_MANY_COLUMNS = 50

#: The condition on `system.tables` for names of staging.
IS_STAGING = "match(name, '^chs3_[0-9a-f]{16}_[0-9a-f]{16}')"
#: The periods of a staging table, as an array of texts; empty for other comments.
PERIODS_IN_COMMENT = "JSONExtract(comment, 'periods', 'Array(String)')"
#: The query for the bytes of parts in earlier versions and held rows, which tables may share.
KEPT_BYTES = "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND match(table, '^chs3_(held|version)_')"
_INSERTED, _PUBLISHED, _HELD = "inserted", "published", "held"


@dataclass(frozen=True)
class Attempt:
    """A run of the protocol for a period, or for several in common."""

    target: TableName
    periods: tuple[Period, ...]
    nonce: str
    number: int = 0
    of: str = ""
    hold_limit_days: float = 0

    @cached_property
    def prefix(self) -> str:
        """The prefix of the names of all attempts at exactly these periods."""
        periods = ",".join(map(str, self.periods))
        identity = f"{self.target.database}\0{self.target.table}\0{periods}" + f"\0{self.number}" * bool(self.number)
        return f"chs3_{'held_' * bool(self.hold_limit_days)}{hashlib.sha256(identity.encode()).hexdigest()[:16]}_"

    @property
    def name(self) -> str:
        """The name of the staging table, and prefix of query ids."""
        return f"{self.prefix}{self.nonce}"

    @property
    def comment(self) -> str:
        """The comment of the staging table, as JSON; without it, the table would have the target's."""
        role = _PUBLISHED if self.number else _INSERTED if len(self.periods) > 1 else "inserted and published"
        of: dict[str, Any] = {**self.target._asdict(), "periods": [*map(str, self.periods)]}
        if self.hold_limit_days:
            role, of = _HELD, {**of, "hold_limit_days": self.hold_limit_days}
        return json.dumps({"role": role, "attempt": self.of or self.nonce, **of})

    def staging(self, context: Target) -> TableName:
        """Return the staging table."""
        return TableName(context.staging_database, self.name)


def ddl_settings(context: Target) -> SettingValues:
    """Return the settings for statements on partitions and tables that every node knows."""
    return {name: value for name, value in DDL_SETTINGS.items() if name in context.known_settings}


def create_staging(context: Target, attempt: Attempt) -> Steps[None]:
    """Create the staging of an attempt on every node: MergeTree without TTL, replicated if the target is.

    It merges no parts, whatever the target's engine, so its count is proof. Columns, codecs, defaults,
    indices, projections and constraints come with `AS`; settings (storage policy, granularity) come from the target on
    that node. Types, codecs and keys that a server forbids in new tables by default are allowed if the target has them.
    """
    staging = attempt.staging(context)
    sql = {
        node: shaped_as_target(
            context,
            node,
            staging,
            engine=context.engine_beside(node, attempt.name),
            comment=attempt.comment,
            is_durable=not attempt.number,
        )
        for node in context.nodes
    }
    name, query_id = f"Create staging {attempt.name}", f"{attempt.name}_create"
    try:
        yield from create_table(context, staging, sql, name=name, settings=context.permissions, query_id=query_id)
    except ClickHouseServerError as error:
        if error.code == QUERY_WAS_CANCELLED:
            raise superseded(attempt) from error
        raise


def shaped_as_target(
    context: Target, node: Node, name: TableName, *, engine: str, comment: str, is_durable: bool = True
) -> Sql:
    """Return the statement that creates a table with partitions compatible with the target."""
    table_facts = context.table_facts
    clauses = {
        "PARTITION BY": table_facts.partition_key,
        "PRIMARY KEY": table_facts.explicit_primary_key,
        "ORDER BY": table_facts.order_by,
        "SAMPLE BY": table_facts.sampling_key,
        "SETTINGS": ", ".join(_staging_settings(context, node, is_durable)),
    }
    rendered = " ".join(f"{keyword} {value}" for keyword, value in clauses.items() if value)
    return Sql(
        f"CREATE TABLE {table(name)} AS {table(context.target)} ENGINE = {engine} {rendered} COMMENT {literal(comment)}"
    )


def holds_any(attempts: Collection[Attempt], *, is_published: bool = True) -> str:
    """Return the condition on `system.tables` for staging of several periods that include any of these."""
    role, target = _PUBLISHED if is_published else _INSERTED, next(iter(attempts)).target
    periods = literals(sorted({str(period) for attempt in attempts for period in attempt.periods}))
    return f"({_comment_has(target, role=role)} AND hasAny({PERIODS_IN_COMMENT}, [{periods}]))"


def staging_of(context: Target) -> str:
    """Return the condition on `system.tables` for the staging of all loads of the target."""
    return f"{in_staging(context)} AND {_comment_has(context.target)}"


def published_from(context: Target, nonce: str) -> str:
    """Return the condition on `system.tables` for the tables that an attempt was to publish from."""
    is_attempt = _comment_has(context.target, attempt=nonce)
    return f"{in_staging(context)} AND {is_attempt} AND NOT {_comment_has(context.target, role=_INSERTED)}"


def _comment_has(target: TableName, **values: str) -> str:
    told = {**target._asdict(), **values}
    parts = (f"JSONExtractString(comment, {literal(name)}) = {literal(value)}" for name, value in told.items())
    return f"({IS_STAGING} AND {' AND '.join(parts)})"


def _staging_settings(context: Target, node: Node, is_durable: bool) -> Iterator[str]:
    table_facts = context.table_facts
    # Settings differ between nodes: the storage policy of a disk defined in the table has a name per node.
    on_node = context.nodes[node].target
    table_settings = items(on_node.settings) if on_node else ()
    yield from (setting for setting in table_settings if setting.partition(" ")[0] not in DURABLE)
    if is_durable or table_facts.is_replicated:
        # A power cut must not lose rows of a recorded REPLACE PARTITION. A shared staging table has only links to parts
        # on the disk, but replicas may fetch parts.
        yield from durable_settings()
    yield _WITHOUT_MERGES
    is_unset = ADAPTIVE_BUFFERS in context.known_settings and ADAPTIVE_BUFFERS not in table_facts.settings
    if is_unset and len(table_facts.columns) >= _MANY_COLUMNS:
        yield f"{ADAPTIVE_BUFFERS} = {_MANY_COLUMNS}"


def superseded(attempt: Attempt) -> SupersededError:
    """Return the error of an attempt that a newer one ended."""
    periods = "" if attempt.periods == (WHOLE_TABLE,) else f" for {range_text(attempt.periods)}"
    return SupersededError(
        f"Another load, or an approval, of {attempt.target}{periods} started later and took "
        "over, or somebody ended this one: it stopped and published nothing more. Let the other one finish, or if "
        "there is none, clear this task. To avoid overlaps, set max_active_runs=1 for the DAG, or "
        "max_active_tis_per_dag=1 for the task; if the other load is of another DAG, put both tasks into a "
        "pool of one slot."
    )


def make_nonce(began_at: datetime) -> str:
    """Make the nonce of an attempt: its start in milliseconds, and a random number.

    It orders attempts, because all servers show the same names. The random number keeps names unique; two equal ones
    would collide at CREATE TABLE.
    """
    return f"{int(began_at.timestamp() * 1000):011x}{secrets.token_hex(3)[:5]}"


def nonce_of(name: str) -> str:
    """Return the nonce in the name of a staging table, which all tables of a load share."""
    return name.split("_", 2)[2]


def in_staging(context: Target) -> str:
    """Return the condition on `system.tables` for the database of staging."""
    return f"database = {literal(context.staging_database)}"


#: Part of the message about other keys, indices or projections.
_DIFFERENT = "Tables have different"


class Command(NamedTuple):
    """The change that an ALTER makes to a partition."""

    node: Node
    text: str
    settings: str = ""


def alter_partitions(
    context: Target, altered: TableName, commands: Iterable[Command], *, name: str, query_id: str | None = None
) -> Steps[None]:
    """Alter partitions of a table, with a statement per node; if one fails, others may have taken effect."""
    by_node = defaultdict[Node, list[Command]](list)
    for command in commands:
        by_node[command.node].append(command)
    sql = dict[Node, Sql]()
    for node, node_commands in by_node.items():
        (settings,) = {command.settings for command in node_commands}
        texts = ", ".join(command.text for command in node_commands)
        sql[node] = Sql(f"ALTER TABLE {table(altered)} {texts}{settings and f' SETTINGS {settings}'}")
    try:
        yield from QueryNodes(name=name, sql=sql, settings=ddl_settings(context), query_id=query_id)
    except ClickHouseServerError as error:
        if error.code != INCOMPATIBLE_COLUMNS and not (error.code == BAD_ARGUMENTS and _DIFFERENT in error.message):
            raise
        # Their structures were compared right before.
        raise TransientError(
            f"{context.target} was altered on {error.host} right before a partition was moved. The next run loads into "
            "the table as it is then."
        ) from error


def attach_partitions(
    context: Target,
    source: TableName,
    to: TableName,
    partitions: Iterable[tuple[Node, str]],
    *,
    name: str,
    query_id: str,
) -> Steps[None]:
    """Attach partitions of one table to another by hard links; replicas follow."""
    commands = (Command(node, f"ATTACH PARTITION ID {literal(key)} FROM {table(source)}") for node, key in partitions)
    return alter_partitions(context, to, commands, name=name, query_id=query_id)
