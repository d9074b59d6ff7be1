"""Create the staging table of one attempt, shaped as the target."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from airflow_provider_chs3.core.ledger.table import DURABLE, durable_settings
from airflow_provider_chs3.core.model.error_codes import QUERY_WAS_CANCELLED
from airflow_provider_chs3.core.model.models import ADAPTIVE_BUFFERS, Node, SettingValues, TableName
from airflow_provider_chs3.core.model.period import Period, range_text
from airflow_provider_chs3.core.sql.quoting import Sql, literal, literals, table
from airflow_provider_chs3.core.sql.server_text import items
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.node_facts import TargetContext
from airflow_provider_chs3.core.target.replication import create_table
from airflow_provider_chs3.core.tuning.exact_settings import DDL_SETTINGS
from airflow_provider_chs3.exceptions import ClickHouseServerError, SupersededError

#: Where the target's engine merges rows. REPLACE PARTITION keeps the level of parts on older servers (seen on 25.8, no
#: more on 26.9), and FINAL takes a part that was merged in staging for one without equal keys: it gave 20 rows for 5.
_WITHOUT_MERGES = (
    "max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1, "
    "parts_to_delay_insert = 1000000, parts_to_throw_insert = 1000000"
)

#: With so many columns their buffers matter: about 2 MB each, for every part that is being written. By default the
#: server has small ones from 500 columns on; with 300 they were measured to halve the memory of an insert.
_MANY_COLUMNS = 50

#: The condition on `system.tables` that finds tables that are named like staging.
IS_STAGING = "match(name, '^chs3_[0-9a-f]{16}_[0-9a-f]{16}')"
#: The periods of a staging table, as an array of texts; empty if it has another comment, as any table may.
PERIODS_IN_COMMENT = "JSONExtract(comment, 'periods', 'Array(String)')"
#: The query for the bytes of all parts that earlier versions and held rows link to; the tables may have them still.
KEPT_BYTES = "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND match(table, '^chs3_(held|version)_')"
_INSERTED, _PUBLISHED, _HELD = "inserted", "published", "held"


@dataclass(frozen=True)
class Attempt:
    """One run of the protocol for one period of one table, or the part of several that they have in common."""

    target: TableName
    periods: tuple[Period, ...]
    nonce: str
    number: int = 0
    of: str = ""
    hold_limit_days: float = 0

    @cached_property
    def prefix(self) -> str:
        """Beginning of the names of all attempts of exactly these periods."""
        periods = ",".join(map(str, self.periods))
        identity = f"{self.target.database}\0{self.target.table}\0{periods}" + f"\0{self.number}" * bool(self.number)
        return f"chs3_{'held_' * bool(self.hold_limit_days)}{hashlib.sha256(identity.encode()).hexdigest()[:16]}_"

    @property
    def name(self) -> str:
        """Name of the staging table, and beginning of the query ids."""
        return f"{self.prefix}{self.nonce}"

    @property
    def comment(self) -> str:
        """Comment of the staging table: what it is for, as JSON. Without it, it would have the target's."""
        role = _PUBLISHED if self.number else _INSERTED if len(self.periods) > 1 else "inserted and published"
        of: dict[str, Any] = {"database": self.target.database, "table": self.target.table}
        of |= {"periods": [*map(str, self.periods)]}
        if self.hold_limit_days:
            role, of = _HELD, {**of, "hold_limit_days": self.hold_limit_days}
        return json.dumps({"role": role, "attempt": self.of or self.nonce, **of})

    def staging(self, context: TargetContext) -> TableName:
        """Return the staging table."""
        return TableName(context.staging_database, self.name)


def ddl_settings(context: TargetContext) -> SettingValues:
    """Return the settings for REPLACE PARTITION and DROP TABLE that every node knows."""
    return {name: value for name, value in DDL_SETTINGS.items() if name in context.known_settings}


def create_staging(context: TargetContext, attempt: Attempt, *, without_merges: bool = False) -> Steps[None]:
    """Create this attempt's staging on every node: MergeTree without TTL, replicated if the target is.

    No row is merged away in it, whatever the target's engine, so its count is proof. Columns, codecs, defaults,
    indices, projections and constraints come with `AS`; settings (storage policy, granularity) come from the target on
    that node. Types, codecs and keys that a server forbids in new tables by default are allowed if the target has them.

    Raises:
        SupersededError: If it was killed: the attempt that starts last ends all others of the period.
    """
    step = create_table(
        context,
        attempt.staging(context),
        {
            node: shaped_as_target(
                context,
                node,
                attempt.staging(context),
                engine=context.engine_beside(node, attempt.name),
                comment=attempt.comment,
                is_durable=not attempt.number,
                without_merges=without_merges,
            )
            for node in context.nodes
        },
        name=f"Create staging {attempt.name}",
        settings=context.permissions,
        query_id=f"{attempt.name}_create",
    )
    try:
        yield from step
    except ClickHouseServerError as error:
        if error.code == QUERY_WAS_CANCELLED:
            raise SupersededError(superseded_message(attempt)) from error
        raise


def shaped_as_target(
    context: TargetContext,
    node: Node,
    name: TableName,
    *,
    engine: str,
    comment: str,
    is_durable: bool = True,
    without_merges: bool = True,
) -> Sql:
    """Return the statement that creates a table whose partitions the target takes, and the other way round."""
    settings = ", ".join(_staging_settings(context, node, is_durable, without_merges))
    return Sql(
        f"CREATE TABLE {table(name)} AS {table(context.target)} ENGINE = {engine} {_clauses(context, settings)} "
        f"COMMENT {literal(comment)}"
    )


def holds_any(attempts: Collection[Attempt], *, is_published: bool = True) -> str:
    """Return the condition on `system.tables` that finds staging of several periods, one of these among them."""
    role, target = _PUBLISHED if is_published else _INSERTED, next(iter(attempts)).target
    periods = literals(sorted({str(period) for attempt in attempts for period in attempt.periods}))
    return f"({_comment_has(target, role=role)} AND hasAny({PERIODS_IN_COMMENT}, [{periods}]))"


def published_from(context: TargetContext, nonce: str) -> str:
    """Return the condition on `system.tables` that finds what an attempt was to publish from, by whatever name."""
    is_attempt = _comment_has(context.target, attempt=nonce)
    return f"{in_staging(context)} AND {is_attempt} AND NOT {_comment_has(context.target, role=_INSERTED)}"


def _comment_has(target: TableName, **values: str) -> str:
    told = {"database": target.database, "table": target.table, **values}
    parts = (f"JSONExtractString(comment, {literal(name)}) = {literal(value)}" for name, value in told.items())
    return f"({IS_STAGING} AND {' AND '.join(parts)})"


def _clauses(context: TargetContext, settings: str) -> str:
    table_facts = context.table_facts
    clauses = (
        ("PARTITION BY", table_facts.partition_key),
        ("PRIMARY KEY", table_facts.explicit_primary_key),
        ("ORDER BY", table_facts.order_by),
        ("SAMPLE BY", table_facts.sampling_key),
        ("SETTINGS", settings),
    )
    return " ".join(f"{keyword} {value}" for keyword, value in clauses if value)


def _staging_settings(context: TargetContext, node: Node, is_durable: bool, without_merges: bool) -> Iterator[str]:
    table_facts = context.table_facts
    # Each node's own: the policy of a disk that the table itself defines may have another name on each.
    on_node = context.nodes[node].target
    table_settings = items(on_node.settings) if on_node else ()
    yield from (setting for setting in table_settings if setting.partition(" ")[0] not in DURABLE)
    if is_durable or table_facts.is_replicated:
        # A REPLACE PARTITION that was recorded must not be of rows that a power cut takes away. What periods are
        # published from together has links alone to parts that are on the disk; replicas may fetch some.
        yield from durable_settings()
    if without_merges or not table_facts.is_plain:
        yield _WITHOUT_MERGES
    if (
        len(table_facts.columns) >= _MANY_COLUMNS
        and ADAPTIVE_BUFFERS in context.known_settings
        and ADAPTIVE_BUFFERS not in table_facts.settings
    ):
        yield f"{ADAPTIVE_BUFFERS} = {_MANY_COLUMNS}"


def superseded_message(attempt: Attempt) -> str:
    """Return the message for an attempt that a newer one has ended."""
    return (
        f"Another load, or an approval, of {attempt.target} for {range_text(attempt.periods)} started later and took "
        "over, or somebody ended this one: it stopped and published nothing more. Let the other one finish, or if "
        "there is none, clear this task. To avoid overlaps, give the DAG max_active_runs=1, or the task "
        "max_active_tis_per_dag=1; if the other load is of another DAG, give both tasks a pool of one slot."
    )


def make_nonce(began_at: datetime) -> str:
    """Make the nonce of an attempt: when it began, in milliseconds, and a random number.

    Attempts are ordered by it, as all servers show the same names. No time gives a name twice, and two attempts at once
    would meet at their CREATE TABLE.
    """
    return f"{int(began_at.timestamp() * 1000):011x}{secrets.token_hex(3)[:5]}"


def nonce_of(name: str) -> str:
    """Return the nonce in the name of a staging table: all tables of one load have the same."""
    return name.split("_", 2)[2]


def in_staging(context: TargetContext) -> str:
    """Return the condition on `system.tables` that finds staging."""
    return f"database = {literal(context.staging_database)}"
