"""Versions: rows of periods right before a publication, or held until a person decides, linked into separate tables.

A publication that keeps versions has such a table on a node of every shard. Its name protects it from take-over and
`chs3 clean`; its comment describes the contents, so that they can be found and verified without a ledger.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from airflow_provider_chs3.core.ledger.partition_changes import is_explained
from airflow_provider_chs3.core.ledger.partition_state import (
    PARTITION,
    Contents,
    PartitionState,
    partition_states,
    wait_for,
)
from airflow_provider_chs3.core.ledger.period_comparison import evidence_of, is_changed
from airflow_provider_chs3.core.ledger.records import Held, PeriodOnNode, Record
from airflow_provider_chs3.core.load.decision import PeriodFacts
from airflow_provider_chs3.core.load.end_attempts import drop_held, drop_tables, end_named, log_failure
from airflow_provider_chs3.core.load.publication import (
    P,
    Publication,
    Publications,
    Staged,
    count_staged,
    held_attempt,
    periods_text,
)
from airflow_provider_chs3.core.load.staging_tables import (
    Attempt,
    Command,
    alter_partitions,
    attach_partitions,
    create_staging,
    in_staging,
    shaped_as_target,
)
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql, in_table, literal, one_of
from airflow_provider_chs3.core.steps.operations import Log, QueryNodes, Row, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.replication import create_table
from airflow_provider_chs3.core.target.table_facts import TableFacts, differences, target_facts, target_query
from airflow_provider_chs3.exceptions import TargetChangedError, TransientError, VerificationError

PREFIX = "chs3_version_"
#: The prefix of versions that no attempt had published.
BEFORE = "before_"
#: A merge that ends in between gives the table other parts than those inspected.
_MOST_TRIES = 5

#: Partitions, by their ids.
_States = Mapping[str, PartitionState]


class Proof(NamedTuple):
    """The expected contents of a partition of a version on a node."""

    rows: int
    digest: str

    @classmethod
    def of(cls, contents: Contents) -> Proof:
        """Return the proof of contents."""
        parts = contents.of_parts
        digest = "" if parts is None else hashlib.sha256(",".join(sorted(parts)).encode()).hexdigest()[:16]
        return cls(contents.rows, digest)


@dataclass(frozen=True, kw_only=True)
class VersionOnNode:
    """A version of a period on a node."""

    proofs: Mapping[str, Proof]
    states: _States

    @property
    def is_whole(self) -> bool:
        """Check whether all kept rows are present."""
        actual = {key: Proof.of(state.contents) for key, state in self.states.items()}
        return all(
            key in actual and actual[key].rows == proof.rows and proof.digest in ("", actual[key].digest)
            for key, proof in self.proofs.items()
        )


@dataclass(frozen=True, kw_only=True)
class Version:
    """A version of a period."""

    period: Period
    attempt: str
    table: str
    kept_at: int
    sequence: int
    objects: str
    source_bytes: int
    shards: tuple[int, ...]
    nodes: dict[Node, VersionOnNode] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The rows that are present."""
        return sum(state.rows for node in self.nodes.values() for state in node.states.values())

    @property
    def why_broken(self) -> str:
        """Describe missing rows; empty if the version is whole."""
        for node, on_node in self.nodes.items():
            if not on_node.is_whole:
                wanted = sum(proof.rows for proof in on_node.proofs.values())
                present = sum(state.rows for state in on_node.states.values())
                return f"on {node} it holds {present:,} rows of the {wanted:,} that were kept, or other parts"
        missing = sorted({*self.shards} - {node.shard_num for node in self.nodes})
        return f"shards {', '.join(map(str, missing))} have none" if missing else ""


def keep_versions(periods: Publications[P]) -> Steps[list[Version]]:
    """Link the target's rows into a version table, if the load keeps versions; return all versions if any was kept."""
    load, kept = periods.first, dict[Period, dict[Node, _States]]()
    context, is_kept = load.context, load.policies.keep_versions > 0
    for item in periods if is_kept else ():
        states: dict[Node, _States] = {
            node: {member.partition_id: member.was.state for member in item.members[node] if member.was.state.rows}
            for node in context.publishers
        }
        if reason := _why_not_kept(item, states):
            yield from Log(name=f"{item.period}: no version is kept, as {reason}.")
        elif any(states.values()):
            kept[item.period] = states
    for number in range(_MOST_TRIES if kept else 0):
        name = f"{PREFIX}{load.attempt.name.removeprefix('chs3_')}{'_' * number}"
        versions, current = yield from _link_versions(periods, kept, name)
        linked = {version.period: version for version in versions if version.table == name}
        if all(period in linked and not linked[period].why_broken for period in kept):
            return versions
        kept = {period: _refresh_states(load.context, states, current) for period, states in kept.items()}
        yield from drop_tables(context, {name: context.publishers}, end="")
    if kept:
        raise TransientError(
            f"{context.target}: merges of {periods_text(periods)} ended {_MOST_TRIES} times "
            "while a version of it was kept. Nothing was published; a retry loads it again."
        )
    return []


def _why_not_kept(item: Publication, states: Mapping[Node, _States]) -> str:
    records = [member.was.record for members in item.members.values() for member in members if member.was.record]
    if any(record.event != "published" for record in records) or len({record.attempt for record in records}) > 1:
        return "a load that died while publishing it has kept what was there before"
    every = [(key, state) for of_node in states.values() for key, state in of_node.items()]
    if any(wait_for(state.mutations, key) for key, state in every):
        return "a mutation of it has not ended"
    if any(part.patches for _, state in every for part in state.each_part or ()):
        return "it has lightweight updates that merges have not applied yet"
    return ""


def _link_versions(
    periods: Publications[P], kept: Mapping[Period, Mapping[Node, _States]], name: str
) -> Steps[tuple[list[Version], dict[Node, _States]]]:
    load = periods.first
    context, version = load.context, TableName(load.context.staging_database, name)
    told = {period: _period_comment(periods.items[period], states) for period, states in kept.items()}
    shards = [publisher.shard_num for publisher in context.publishers]
    of_table = {"role": "version", **context.target._asdict(), "shards": shards}
    sql = dict[Node, Sql]()
    for node in context.publishers:
        of_periods = dict[str, dict[str, object]]()
        for period, states in kept.items():
            proofs = {key: Proof.of(state.contents) for key, state in states[node].items()}
            of_periods[str(period)] = {**told[period], "partitions": proofs}
        comment = _json({**of_table, "versions": of_periods})
        sql[node] = shaped_as_target(context, node, version, engine=context.own_engine, comment=comment)
    query_id = f"{load.attempt.name}_create_version"
    step_name, settings = f"Create {name}", context.permissions
    yield from create_table(context, version, sql, name=step_name, settings=settings, query_id=query_id)
    partitions = ((node, key) for states in kept.values() for node, of_node in states.items() for key in of_node)
    yield from attach_partitions(
        context,
        context.target,
        version,
        partitions,
        name=f"Keep what {context.target} holds of {periods_text(periods)}",
        query_id=f"{load.attempt.name}_keep",
    )
    ids = sorted({key for states in kept.values() for of_node in states.values() for key in of_node})
    of_target = partition_states(f"{in_table(context.target)} AND {one_of(PARTITION, ids)}")
    versions, answers = yield from find_versions(context, beside=f"(SELECT groupArray(found) FROM ({of_target}))")
    current: dict[Node, _States] = {
        node: {key: PartitionState.of(key, fields) for key, fields in rows} for node, (rows,) in answers.items()
    }
    return versions, current


def _period_comment(load: Publication, states: Mapping[Node, _States]) -> dict[str, object]:
    """Return the values of a period in the comment, besides its partitions."""
    facts, before = load.context.table_facts, [load.before[node] for node in states]
    record = next((period.record for period in before if period.record), None)
    is_of_others = any(
        bool(part.state.rows) if part.record is None else is_changed(part, table_facts=facts)
        for period in before
        for part in period.each
    )
    # Restoring an attempt's publication must not bring back later changes by others.
    if record is None or is_of_others:
        return {"attempt": f"{BEFORE}{load.attempt.nonce}", "sequence": 0, "objects": "", "source_bytes": 0}
    of_record = {"attempt": record.attempt, "sequence": record.sequence, "source_bytes": record.source_bytes}
    return {**of_record, "objects": objects_of(record)}


def objects_of(record: Record) -> str:
    """Return the identity of a record's objects and definition; empty if it was restored."""
    return "" if record.restored else f"{record.fingerprint} {record.definition}"


def add_date(comment: str, kept_at: int) -> str:
    """Add the time of keeping to the comment of a version, because an ALTER changes the age of its table."""
    return _json({**json.loads(comment), "kept_at": kept_at})


def _json(values: Mapping[str, object]) -> str:
    return json.dumps(values, separators=(",", ":"))


def _refresh_states(
    context: Target, states: Mapping[Node, _States], current: Mapping[Node, _States]
) -> dict[Node, _States]:
    """Return the current partitions; only merges may have changed them."""
    for node, of_node in states.items():
        for key, state in of_node.items():
            is_now = current[node].get(key, PartitionState(partition_id=key))
            if not is_explained(state.evidence(), is_now, table_facts=context.table_facts):
                raise TargetChangedError(
                    f"{context.target} on {node}: somebody wrote to partition {key} while a version of it was kept. "
                    "Nothing of it was published. Find out who does; "
                    "policies={'on_target_changed': 'reload'} replaces such rows."
                )
    return {
        node: {key: current[node][key] for key in of_node if key in current[node]} for node, of_node in states.items()
    }


def find_versions(context: Target, *, beside: str = "") -> Steps[tuple[list[Version], dict[Node, Row]]]:
    """Find the versions of a table's periods, oldest first, also incomplete ones; and the further columns by node."""
    target = {"role": "version", **context.target._asdict()}
    told = (f"JSONExtractString(comment, {literal(name)}) = {literal(value)}" for name, value in target.items())
    is_version = f"startsWith(name, {literal(PREFIX)}) AND {' AND '.join(told)}"
    tables = f"FROM system.tables WHERE {in_staging(context)} AND {is_version}"
    states = partition_states(f"{in_staging(context)} AND table IN (SELECT name {tables})", by="table")
    sql = Sql(
        f"SELECT (SELECT groupArray((name, comment, toUnixTimestamp(metadata_modification_time))) {tables}), "
        f"(SELECT groupArray(found) FROM ({states})){beside and f', {beside}'}"
    )
    # With shared metadata, a single replica per shard answers.
    nodes = context.publishers if context.shared else context.nodes
    answers = yield from QueryNodes(name=f"Look for versions of {context.target}", sql=dict.fromkeys(nodes, sql))
    known = dict[tuple[str, str], Version]()
    for node, ((names, parts, *_),) in answers.items():
        of_tables = defaultdict[str, dict[str, PartitionState]](dict)
        for name, key, fields in parts:
            of_tables[name][key] = PartitionState.of(key, fields)
        for version, on_node in _versions_on(names, of_tables):
            known.setdefault((version.table, str(version.period)), version).nodes[node] = on_node
    # Dropped partitions are still in the comment.
    whole = (version for version in known.values() if version.rows)
    versions = sorted(whole, key=lambda version: (version.kept_at, version.sequence, version.table))
    return versions, {node: row[2:] for node, (row,) in answers.items()}


def _versions_on(names: Sequence[Row], of_tables: Mapping[str, _States]) -> Iterator[tuple[Version, VersionOnNode]]:
    for name, comment, modified_at in names:
        told = json.loads(comment)
        kept_at = told.get("kept_at", modified_at)
        for period, fields in told["versions"].items():
            proofs = {key: Proof(*values) for key, values in fields.pop("partitions").items()}
            states = {key: state for key, state in of_tables[name].items() if key in proofs}
            shards = tuple(told["shards"])
            version = Version(period=Period.parse(period), table=name, kept_at=kept_at, shards=shards, **fields)
            yield version, VersionOnNode(proofs=proofs, states=states)


def drop_older_versions(periods: Publications[P], versions: Sequence[Version] | None) -> Steps[None]:
    """Drop outdated and broken versions of published periods; if that fails, the next publication does it."""
    if not versions or not periods.items:
        return
    load = periods.first
    most, needed, gone = load.policies.keep_versions, set[str](), list[Version]()
    newest = defaultdict[Period, set[str]](set)
    for version in reversed(versions):
        of_period = newest[version.period]
        is_kept = not version.why_broken and version.attempt not in of_period and len(of_period) < most
        # A replica that was down may still have to fetch it.
        is_late = bool(version.why_broken) and load.context.shared is not None
        if version.period in periods.items and not is_kept and not is_late:
            gone.append(version)
        else:
            needed.add(version.table)
            of_period.add(version.attempt)
    dropping = _drop_versions(load.context, gone, needed)
    yield from log_failure(dropping, "Older versions could not be dropped; the next load drops them.")


def _drop_versions(context: Target, gone: Sequence[Version], needed: set[str]) -> Steps[None]:
    for name in sorted({version.table for version in gone}):
        outdated = [version for version in gone if version.table == name]
        if name not in needed:
            yield from drop_tables(context, {name: [node for version in outdated for node in version.nodes]}, end="")
            continue
        commands = (
            Command(node, f"DROP PARTITION ID {literal(key)}")
            for version in outdated
            for node, on_node in version.nodes.items()
            for key in on_node.states
        )
        altered = TableName(context.staging_database, name)
        yield from alter_partitions(context, altered, commands, name=f"Drop older versions out of {name}")


def keep_held(load: Publication) -> Steps[dict[Node, Staged]]:
    """Link the staged rows of a period to a table that later loads spare, and count them there."""
    attempt = held_attempt(load, load.attempt.nonce)
    # An earlier process of the same attempt may have died here.
    yield from end_named(load.context, [attempt.name])
    yield from create_staging(load.context, attempt)
    return (yield from link_partitions(load, load.staging, attempt, load.staged))


def link_partitions(
    load: Publication, source: TableName, to: Attempt, wanted: Mapping[Node, Staged]
) -> Steps[dict[Node, Staged]]:
    """Attach partitions of one table to another by hard links, and count the rows there."""
    target, of_shards = to.staging(load.context), {node.shard_num: node for node in sorted(wanted, reverse=True)}
    yield from attach_partitions(
        load.context,
        source,
        target,
        ((node, key) for node in of_shards.values() for key in wanted[node].partitions),
        name=f"Take the rows of {load.period} out of {source}",
        # The prefix is that of the load's attempt, so that ending the attempt ends these statements.
        query_id=f"{load.attempt.name if to.hold_limit_days else to.name}_link",
    )
    with_attempt = replace(load, attempt=to, others_in_staging=frozenset())
    attached = yield from count_staged(with_attempt, name=f"Count what {target} holds")
    for node, staged in wanted.items():
        if attached[node].rows_by_partition != staged.rows_by_partition or attached[node].other_rows:
            raise VerificationError(
                f"{target} on {node} got {attached[node].rows} of the {staged.rows} rows of {load.period} that "
                f"{source} held: somebody drops parts of these tables. The period was not published."
            )
    return attached


def validate_held(
    context: Target, period: Period, facts: PeriodFacts, nodes: Mapping[Node, PeriodOnNode]
) -> Steps[PeriodFacts]:
    """Return the facts about a period without its held version, if that cannot be published.

    Partitions fit only tables of the same structure. An arrival is loaded again, so its held table is not needed.
    """
    if facts.held is None or facts.held.arrival:
        return facts
    name = Attempt(context.target, (period,), facts.held.record.attempt, hold_limit_days=1).name
    held = TableName(context.staging_database, name)
    parts = f"(SELECT groupArray(found) FROM ({partition_states(in_table(held))}))"
    sql = Sql(f"SELECT {target_query(held)}, {parts}")
    answers = yield from context.on_each(name="Look at what is held", sql=sql)
    for node, ((*row, partitions),) in answers.items():
        states = {key: PartitionState.of(key, fields) for key, fields in partitions}
        if reason := _why_unusable(context, held, target_facts(row), nodes[node].held, states):
            return replace(facts, held=None, why_not_held=reason)
    return facts


def _why_unusable(
    context: Target,
    held: TableName,
    table_facts: TableFacts | None,
    claims: Held | None,
    states: Mapping[str, PartitionState],
) -> str:
    if table_facts is None:
        return f"table {held.table}, which held it, is gone"
    target = context.table_facts
    if altered := differences(table_facts, target):
        return f"the table was altered since it was held: {'; '.join(altered)}"
    before = {column.name for column in table_facts.stored}
    if added := [column.name for column in target.stored if column.name not in before]:
        return f"the table got {'column' if len(added) == 1 else 'columns'} {', '.join(added)} since it was held"
    for record in claims.records if claims else ():
        checked, is_now = evidence_of(record).beside, states.get(record.partition_id, PartitionState()).contents
        is_same = checked.of_parts is None or is_now.has_parts_of(checked)
        if checked.rows != is_now.rows or not is_same:
            return f"somebody changed table {held.table}, which holds it: {checked.rows} rows were checked"
    return ""


def drop_held_of(*loads: Publication, but: str = "") -> Steps[None]:
    """Drop the held rows of replaced periods; if that fails, cleaning does it."""
    if loads:
        dropping = drop_held(loads[0].context, *(held_attempt(load, but) for load in loads))
        failed = f"Held rows of {periods_text(loads)} could not be dropped; chs3 clean drops them."
        yield from log_failure(dropping, failed)
