"""The rows that a SELECT makes of a table's period, on the servers that hold both tables.

Each shard runs the SELECT over its own rows of the base, as a materialized view there would, and keeps what it makes.
`additional_table_filters` restricts the base to the partitions of one period, wherever the SELECT reads it. Servers
ignore a filter of a table that is not read, without an error: so each load first has them resolve a filter by a column
that no table has, which must fail.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from airflow_provider_chs3.core.files.parse_errors import reason_of
from airflow_provider_chs3.core.files.row_source import RowSource, rows_of, unit_of, version_of
from airflow_provider_chs3.core.files.source import AccessTrial, KnownColumn
from airflow_provider_chs3.core.ledger.partition_state import PARTITION
from airflow_provider_chs3.core.ledger.queries import periods_of_partitions
from airflow_provider_chs3.core.load.discovery import VIEW_TO
from airflow_provider_chs3.core.model.error_codes import UNKNOWN_IDENTIFIER
from airflow_provider_chs3.core.model.models import Manifest, Node, PeriodObjects, TableName
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Grain, Period, grain_of
from airflow_provider_chs3.core.model.store_kind import DERIVED, Format, StoreKind
from airflow_provider_chs3.core.sql.quoting import (
    Sql,
    identifier,
    in_table,
    is_table,
    literal,
    literals,
    one_of,
    table,
    without_quoted,
)
from airflow_provider_chs3.core.steps.operations import Gather, Query, Steps
from airflow_provider_chs3.core.target.node_facts import Target, inspect_target
from airflow_provider_chs3.core.target.period_partitions import grain_of_key, partitions_of
from airflow_provider_chs3.core.target.replication import follow
from airflow_provider_chs3.core.target.topology import TableRequest
from airflow_provider_chs3.exceptions import (
    ClickHouseServerError,
    ConfigurationError,
    PreflightError,
    ReplicasBehindError,
    SourceError,
)

SELECT = StoreKind(
    title="a SELECT",
    function="view",
    privilege="",
    contents=DERIVED,
    format=Format("rows", is_typed=True),
)

#: No table has such a column.
_NO_COLUMN = "chs3: no column"
_PATH = "_path"
_FILTERS = "additional_table_filters"
#: A step of a plan that other servers read (seen on 25.8 and 26.9).
_READS_ELSEWHERE = "ReadFromRemote"
#: Bytes that a value is taken for, where merges would change what parts take.
_BYTES_OF_A_VALUE = 8

#: Between the digest of the base's rows and that of what is read of them: no version of another source has it.
_BETWEEN = "-"
#: The versions of periods in records, with the digest of their base, as a regular expression of the servers.
VERSION = f"^[0-9]+/0/([0-9a-f]{{32}}){_BETWEEN}[0-9a-f]{{32}}$"

#: Codes of errors that a statement has itself: its syntax, what it names, types, and numbers of arguments.
_OF_THE_SELECT = frozenset({42, 43, 44, 46, 47, 53, 60, 62, 70, 81, 115, 179, 184, 207, 215, 352, 386})

_IS_PATCH = "startsWith(partition_id, 'patch-')"
#: Merges leave this as it is: the number of rows in a partition, the highest number of a block, which each INSERT,
#: ATTACH and REPLACE raises, and the number of the last mutation; and the same of lightweight updates.
_STATE = (
    f"sumIf(rows, NOT {_IS_PATCH}) AS own, maxIf(max_block_number, NOT {_IS_PATCH}), "
    f"maxIf(toUInt64OrZero(splitByChar('_', name)[5]), NOT {_IS_PATCH}), "
    f"sumIf(rows, {_IS_PATCH}), maxIf(max_block_number, {_IS_PATCH})"
)


class _Base(NamedTuple):
    """The base as it is now."""

    context: Target
    partitions: Mapping[int, Mapping[str, tuple[int, ...]]]
    owns: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class SelectSource(RowSource):
    """The rows that a SELECT makes of a period of its base."""

    #: The SELECT; empty until the first listing if it is that of a materialized view.
    sql: str
    #: The base, as the user named it; until then the view.
    base: TableRequest
    cluster: str | None = None
    local: TableName | None = None
    columns: tuple[KnownColumn, ...] = ()
    #: Period → ids of its partitions in the base, known from listing it.
    partitions: Mapping[Period, tuple[str, ...]] | None = None

    @property
    def kind(self) -> StoreKind:  # type: ignore[override]
        """The kind of this source, with the privilege on its base."""
        return replace(SELECT, privilege=f"SELECT ON {table(self.base.target)}")

    @property
    def place(self) -> str:
        """The base, without slashes."""
        return str(self.base.target).replace("%", "%25").replace("/", "%2F")

    @property
    def pattern(self) -> str:
        """The word for the parts of a period, for messages."""
        return "its partitions"

    @property
    def has_files(self) -> bool:
        """Return whether there are files: there are none."""
        return False

    @property
    def known_columns(self) -> tuple[KnownColumn, ...]:
        """The columns of the SELECT; none before the first listing."""
        return self.columns

    @property
    def why_one_by_one(self) -> str:
        """The reason to load periods one by one."""
        return f"the SELECT reads {self.place} period by period"

    def access_trial(self, period: Period | None) -> AccessTrial:
        """Refuse a try: the doctor knows no base."""
        raise ConfigurationError(f"{self.place} is a table of the same servers: there is nothing to try.")

    def list_periods(self, periods: Collection[Period]) -> Steps[tuple[Self, dict[Period, Manifest]]]:
        """Look at the base's partitions of periods; a period without rows there has no object."""
        known = yield from self._resolve_view()
        base = yield from known._read_base(grain_of(periods), periods)
        described = replace(known, local=base.context.target, cluster=base.context.cluster)
        context = base.context
        checks: tuple[Steps[Any], ...] = (
            described._describe(context),
            described._check_filter(context),
            described._check_reads_here(context),
            *(() if self.sql else (described._check_same_on_each(context, view=self.base.target),)),
        )
        columns, *_ = yield from Gather(name=f"Check the SELECT over {self.place}", workflows=checks)
        ids = {period: tuple(sorted(key for key, of in base.owns.items() if of == str(period))) for period in periods}
        described = replace(described, columns=columns, partitions=ids)
        return described, {period: described._manifest(period, base) for period in periods}

    def summarize_periods(self, periods: Collection[Period] | Grain) -> Steps[dict[Period, PeriodObjects]]:
        """Look at the base's partitions of periods for a comparison alone; see `Source.summarize_periods`."""
        if periods is Grain.ALL:
            periods = [WHOLE_TABLE]
        if isinstance(periods, Grain):
            base = yield from (yield from self._resolve_view())._read_base(periods, ())
            known = yield from periods_of_partitions(base.context, set[str]().union(*base.partitions.values()))
            periods = sorted({Period.of(partitions.begin, periods) for partitions in known.values()})
        _, listed = (yield from self.list_periods(periods)) if periods else (self, {})
        return {period: PeriodObjects.of(manifest, rows=rows_of(manifest)) for period, manifest in listed.items()}

    def _resolve_view(self) -> Steps[Self]:
        """Return the source with the SELECT and the base of its view, if it has one, as they are now."""
        if self.sql:
            return self
        view = self.base.target
        feeds = f"has(arrayZip(dependencies_database, dependencies_table), ({literals(view)}))"
        bases = f"(SELECT groupArray((database, name)) FROM system.tables WHERE {feeds})"
        views = f"SELECT *, extract(create_table_query, {literal(VIEW_TO.pattern)}) AS writes_to FROM system.tables"
        rows = yield from Query(
            name=f"Look at the view {view}",
            sql=Sql(
                f"SELECT groupArrayIf((as_select, writes_to), {is_table(view)}), {bases}, "
                f"groupArrayIf((writes_to, concat(database, '.', name)), NOT ({is_table(view)}) AND writes_to != '') "
                f"FROM ({views} WHERE engine = 'MaterializedView')"
            ),
        )
        written, base_tables, others = rows[0]
        if not written or len(base_tables) != 1:
            raise PreflightError(
                f"{view} is not a materialized view over a table that the user may see: check view=…, and grant SELECT "
                "on both, or set sql and from_table."
            )
        (select, writes_to), (base,) = written[0], base_tables
        if also := [name for to, name in others if to == writes_to]:
            raise PreflightError(
                f"{view} and {', '.join(also)} all write to {writes_to}, and a load of one would remove what the "
                "others make: set sql, a UNION ALL of theirs, and from_table."
            )
        return replace(self, sql=select, base=replace(self.base, target=TableName(*base)))

    def _read_base(self, grain: Grain, periods: Collection[Period]) -> Steps[_Base]:
        """Look at the base's partitions on all of its replicas."""
        context = yield from inspect_target(self.base)
        _check_base(context)
        base_grain = Grain.ALL if grain is Grain.ALL else (yield from grain_of_key(context))
        spans = {span: period for period in periods for span in _spans_of(period, base_grain, context)}
        owns = (yield from partitions_of(context, sorted(spans))) if spans and base_grain is not Grain.ALL else {}
        of_part = next((partitions.of_part for partitions in owns.values()), "") or "partition_id"
        if base_grain is Grain.ALL:
            of_part = literal(str(WHOLE_TABLE))
        yield from follow(context, context.target)
        answers = yield from context.on_each(
            name=f"Look at the partitions of {self.place}",
            sql=states_query(in_table(context.target), of_part),
        )
        by_value = {partitions.value: str(spans[span]) for span, partitions in owns.items()} or {
            str(WHOLE_TABLE): str(WHOLE_TABLE)
        }
        rows = [row[2:] for answer in answers.values() for row in answer]
        states = {node: {row[2]: tuple(map(int, row[4:])) for row in rows} for node, rows in answers.items()}
        owned = {row[0]: by_value[value] for row in rows if (value := str(row[1])) in by_value}
        return _Base(context, _join_replicas(context, states), owned)

    def _describe(self, context: Target) -> Steps[tuple[KnownColumn, ...]]:
        try:
            rows = yield from context.on_coordinator(
                name=f"Read the columns of the SELECT over {self.place}", sql=Sql(f"DESCRIBE TABLE (\n{self.sql}\n)")
            )
        except ClickHouseServerError as error:
            if error.code not in _OF_THE_SELECT:
                raise
            raise ConfigurationError(
                f"The server rejects the SELECT over {self.place}: {reason_of(error)}. Correct sql=…, or the view."
            ) from error
        columns = tuple(KnownColumn(name=row[0], type=row[1], clickhouse_type=row[1]) for row in rows)
        if any(column.name == _PATH for column in columns):
            raise SourceError(f"The SELECT over {self.place} has a column {_PATH!r}, which loads use: rename it.")
        return columns

    def _check_filter(self, context: Target) -> Steps[None]:
        """Check that servers filter the base wherever the SELECT reads it."""
        sql = self._filtered("*", f"{identifier(_NO_COLUMN)} = 1")
        try:
            yield from context.on_coordinator(
                name=f"Check that the SELECT reads {self.place}", sql=Sql(f"EXPLAIN {sql}")
            )
        except ClickHouseServerError as error:
            if error.code != UNKNOWN_IDENTIFIER or _NO_COLUMN not in error.message:
                raise
        else:
            if _FILTERS in without_quoted(self.sql):
                raise SourceError(
                    f"The SELECT over {self.place} sets {_FILTERS} itself, by which a load would restrict it to a "
                    "period: put the condition into its WHERE."
                )
            raise SourceError(
                f"The SELECT does not read {context.target}, so a load could not restrict it to a period: name the "
                "table that it reads as from_table."
            )

    def _check_same_on_each(self, context: Target, *, view: TableName) -> Steps[None]:
        """Check that a view is the same on every node: its SELECT on one of them stands for all."""
        answers = yield from context.on_each(
            name=f"Compare the view {view}", sql=Sql(f"SELECT as_select FROM system.tables WHERE {is_table(view)}")
        )
        for node, rows in answers.items():
            if [row[0] for row in rows] != [self.sql]:
                what = "differs" if rows else "is missing, or the user may not see it,"
                raise PreflightError(
                    f"The materialized view {view} {what} on {node}: create the same on every node, or set sql and "
                    "from_table. Nothing was loaded."
                )

    def _check_reads_here(self, context: Target) -> Steps[None]:
        """Check that each shard reads its own rows alone: of a Distributed table, each would read those of all."""
        rows = yield from context.on_coordinator(
            name=f"Check where the SELECT over {self.place} reads", sql=Sql(f"EXPLAIN {self._filtered('*', '0')}")
        )
        if any(_READS_ELSEWHERE in str(row[0]) for row in rows):
            raise SourceError(
                f"The SELECT over {self.place} reads from other servers, and each shard runs it, so rows would be "
                "there several times: name local tables in it, not Distributed ones."
            )

    def _manifest(self, period: Period, base: _Base) -> Manifest:
        assert self.partitions is not None
        ids, context = self.partitions[period], base.context
        shards = partitions_on_shards(ids, base.partitions)
        if not any(shards.values()):
            return Manifest(())
        uuids = [facts.target.uuid for facts in context.nodes.values() if facts.target]
        # A default may be computed when it is read.
        reads = _digest([self.sql, list(map(str, context.table_facts.columns))])
        digest = f"{digest_of_base(uuids, shards)}{_BETWEEN}{reads}"
        rows = sum(state[0] for states in shards.values() for state in states.values())
        size_bytes = rows * len(self.columns) * _BYTES_OF_A_VALUE
        return Manifest((unit_of(self.place, period, version=version_of(rows, 0, digest), size_bytes=size_bytes),))

    def table_function(
        self,
        glob: str,
        *,
        file_format: str,
        cluster: str | None = None,
        structure: str = "auto",
        compression: str = "auto",
    ) -> Sql:
        """Return what stands behind FROM: the SELECT over a period of this server's rows, or of each shard's.

        The glob is the period; the servers know the rest.
        """
        assert self.partitions is not None
        ids = one_of("_partition_id", self.partitions[Period.parse(glob)])
        sql = self._filtered(f"*, {literal(f'{self.place}/{glob}')} AS {_PATH}", ids)
        return Sql(f"{_before(cluster)}{sql}{_after(cluster)}")

    def _filtered(self, values: str, condition: str) -> str:
        """Return the SELECT over those rows of the base for which a condition holds."""
        # Servers know the table by its names alone, without quotes, whatever is in them.
        filters = f"{{{literal(str(self.local))}: {literal(condition)}}}"
        return f"SELECT {values} FROM (\n{self.sql}\n) SETTINGS {_FILTERS} = {filters}"

    def select(self, values: Sequence[str], *, function: Sql, condition: str, cluster: str | None) -> Sql:
        """Return the SELECT of an insert; see `Source.select`, and `SqlSource.select` for why all is in the view."""
        if cluster != self.cluster:
            raise PreflightError(
                f"{self.place} is on {_shown(self.cluster)}, but the table on {_shown(cluster)}: name one cluster for "
                "both with cluster=…."
            )
        names = [f"`chs3: value {number}`" for number in range(len(values))]
        made = ", ".join(f"{value} AS {name}" for value, name in zip(values, names, strict=True))
        inner = function.text.removeprefix(_before(cluster)).removesuffix(_after(cluster))
        all_of_it = f"SELECT {made} FROM ({inner}) WHERE {condition}"
        return Sql(f"SELECT {', '.join(names)} FROM {_before(cluster)}{all_of_it}{_after(cluster)}")


def _before(cluster: str | None) -> str:
    return f"cluster({literal(cluster)}, view(" if cluster else "("


def _after(cluster: str | None) -> str:
    return "))" if cluster else ")"


def _shown(cluster: str | None) -> str:
    return f"cluster {cluster!r}" if cluster else "the connection's server alone"


def _check_base(context: Target) -> None:
    said = ", which the SELECT reads,"
    if finding := context.missing_target("check from_table, and create it there", said=said):
        raise PreflightError(finding)
    engine = context.table_facts.engine
    if not engine.endswith("MergeTree"):
        raise PreflightError(
            f"Table {context.target}, which the SELECT reads, has engine {engine}, and only MergeTree tables have "
            "partitions: name a local one as from_table."
        )


def _spans_of(period: Period, grain: Grain, context: Target) -> Iterable[Period]:
    """Return the periods of the base that make up one of the target."""
    if period.grain is Grain.ALL:
        return [period]
    spans = period.parts(grain)
    if grain is not Grain.ALL and (spans[0].begin, spans[-1].end) == (period.begin, period.end):
        return spans
    by = "not partitioned" if grain is Grain.ALL else f"partitioned by {grain}"
    raise PreflightError(
        f"{context.target}, which the SELECT reads, is {by}, so no partitions of it make up {period}: partition the "
        "table to load as its base, by longer periods that whole ones of the base make up, or not at all."
    )


def _join_replicas(
    context: Target, states: Mapping[Node, Mapping[str, tuple[int, ...]]]
) -> dict[int, Mapping[str, tuple[int, ...]]]:
    """Return the partitions of each shard, which are the same on all of its replicas."""
    shards = defaultdict[int, list[Node]](list)
    for node in states:
        shards[node.shard_num].append(node)
    for replica, *others in shards.values():
        for other in others:
            if differing := sorted({*states[replica].items()} ^ {*states[other].items()}):
                raise ReplicasBehindError(
                    f"{replica} and {other} are replicas, and hold other parts of {context.target} in partition "
                    f"{differing[0][0]}: they merge, or catch up. A retry looks again."
                )
    return {shard: states[nodes[0]] for shard, nodes in shards.items()}


def states_query(of_tables: str, of_part: str) -> Sql:
    """Return the query for the state of each partition with rows: table, id, a text of its parts, and the state."""
    return Sql(
        f"SELECT database, table, {PARTITION} AS id, anyIf({of_part}, NOT {_IS_PATCH}), {_STATE} FROM system.parts "
        f"WHERE {of_tables} AND active AND rows > 0 GROUP BY database, table, id HAVING own > 0 ORDER BY id"
    )


def partitions_on_shards(
    ids: Sequence[str], partitions: Mapping[int, Mapping[str, tuple[int, ...]]]
) -> dict[int, dict[str, tuple[int, ...]]]:
    """Return some partitions of each shard, with their states."""
    return {
        shard: {partition_id: states[partition_id] for partition_id in ids if partition_id in states}
        for shard, states in sorted(partitions.items())
    }


def digest_of_base(uuids: Iterable[str], shards: Mapping[int, Mapping[str, tuple[int, ...]]]) -> str:
    """Return what changes with the rows of a period's base."""
    return _digest([sorted(uuids), shards])


def _digest(known: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:32]
