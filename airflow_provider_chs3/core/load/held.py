"""Hold the staged rows of a period instead of publishing them, until a person decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_chs3.core.ledger.comparison import evidence_of
from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.parts import partition_states
from airflow_provider_chs3.core.ledger.records import Held, PeriodOnNode
from airflow_provider_chs3.core.load.alter_statement import attach_partitions
from airflow_provider_chs3.core.load.decision import PeriodFacts
from airflow_provider_chs3.core.load.end_attempts import drop_held, end_named
from airflow_provider_chs3.core.load.publication import Publication, Staged
from airflow_provider_chs3.core.load.staged_rows import count_staged
from airflow_provider_chs3.core.load.staging_tables import Attempt, create_staging
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql, in_table
from airflow_provider_chs3.core.steps.operations import Log, Steps
from airflow_provider_chs3.core.target.node_facts import TargetContext
from airflow_provider_chs3.core.target.table_facts import TableFacts, differences, target_facts, target_query
from airflow_provider_chs3.exceptions import Chs3Error, VerificationError


def keep_held(load: Publication) -> Steps[dict[Node, Staged]]:
    """Link the staged rows of a period to a table that later loads spare, and count them there.

    Raises:
        VerificationError: If that table does not hold the staged rows.
    """
    attempt = held_attempt(load, load.attempt.nonce)
    # An earlier process of the same attempt may have died here.
    yield from end_named(load.context, [attempt.name])
    yield from create_staging(load.context, attempt)
    return (yield from link_partitions(load, load.staging, attempt, load.staged))


def link_partitions(
    load: Publication, source: TableName, to: Attempt, wanted: Mapping[Node, Staged]
) -> Steps[dict[Node, Staged]]:
    """Attach partitions of one table to another by hard links, and count the rows there.

    Raises:
        VerificationError: If the rows differ.
    """
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
    attached = yield from count_staged(with_attempt(load, to), name=f"Count what {target} holds")
    for node, staged in wanted.items():
        if attached[node].counts != (staged.counts[0], {}):
            raise VerificationError(
                f"{target} on {node} got {attached[node].rows} of the {staged.rows} rows of {load.period} that "
                f"{source} held: somebody drops parts of these tables. The period was not published."
            )
    return attached


def with_attempt(load: Publication, attempt: Attempt) -> Publication:
    """Return a load of one period with the staging of an attempt."""
    return replace(load, attempt=attempt, others_in_staging=frozenset())


def held_attempt(load: Publication, nonce: str) -> Attempt:
    """Return the attempt that names the table with the held rows."""
    days = load.policies.hold_limit_days
    return Attempt(load.context.target, (load.period,), nonce, hold_limit_days=days)


def validate_held(
    context: TargetContext, period: Period, facts: PeriodFacts, nodes: Mapping[Node, PeriodOnNode]
) -> Steps[PeriodFacts]:
    """Return the facts about a period without its held version, if that cannot be published.

    This is the case if a node lacks the held table or the checked parts, or if the target was altered since:
    partitions fit only tables of the same structure.
    """
    if facts.held is None:
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
    context: TargetContext,
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


def drop_held_of(load: Publication, *, but: str = "") -> Steps[None]:
    """Drop the held rows of a replaced period; if that fails, cleaning does it."""
    try:
        yield from drop_held(load.context, held_attempt(load, but))
    except Chs3Error as error:
        name = f"Held rows of {load.period} could not be dropped; chs3 clean drops them. ({error})"
        yield from Log(name=name)
