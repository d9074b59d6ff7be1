"""Step 8 of a load: replace the partitions on every node, and record it there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from airflow_provider_chs3.core.arguments.check_arguments import rows_that_fail
from airflow_provider_chs3.core.ledger.object_records import ObjectsOfPeriod, record_objects
from airflow_provider_chs3.core.ledger.partition_changes import is_explained
from airflow_provider_chs3.core.ledger.period_comparison import is_changed
from airflow_provider_chs3.core.ledger.queries import look_up_beside
from airflow_provider_chs3.core.ledger.recording import Values, add_records
from airflow_provider_chs3.core.ledger.records import WITH_ARRIVAL, PeriodOnNode, rows_of_shards
from airflow_provider_chs3.core.load.checks import check_rows, check_seen
from airflow_provider_chs3.core.load.increment_completion import all_objects, prove_attached, require_base
from airflow_provider_chs3.core.load.kept_versions import drop_held_of, drop_older_versions, keep_held, keep_versions
from airflow_provider_chs3.core.load.publication import (
    P,
    PartitionStates,
    Publication,
    Publications,
    Staged,
    check_none_newer,
    partitions_of,
    partitions_query,
    periods_text,
    records_of,
    staged_of,
    values_of,
)
from airflow_provider_chs3.core.load.published_rows import (
    check_published,
    find_lasting,
    held_nodes,
    look_at_published,
    remove_replaced,
)
from airflow_provider_chs3.core.load.staging_tables import Command, alter_partitions
from airflow_provider_chs3.core.model.error_codes import BAD_ARGUMENTS
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import literal, table
from airflow_provider_chs3.core.steps.operations import Gather, Sleep, Steps
from airflow_provider_chs3.core.target.replication import follow
from airflow_provider_chs3.core.target.table_facts import TableFacts, target_facts, target_query
from airflow_provider_chs3.core.tuning.insert_settings import EMPTY_SOURCE
from airflow_provider_chs3.exceptions import (
    ClickHouseServerError,
    PreflightError,
    TargetChangedError,
    TransientError,
    VerificationError,
)

#: Partitions fit only tables that agree in these. Columns and engine also decide the rows.
_COMPARED = ("columns", "partition_key", "sorting_key", "primary_key", "indices", "projections", "engine")
#: Error codes of servers that read the partition of a staged part by another type → part of the message.
_OTHER_KEY = {33: "Cannot read all data", 246: "calculated partition ID"}
#: Queries keep the parts they read on the disk.
_WAITS_FOR_REPLACED_SECONDS = (1, 2, 4, 8, 15, 30, 30, 30)


def publish(periods: Publications[P]) -> Steps[PartitionStates]:
    """Replace the periods' partitions on every node with the staged rows, from one staging table; return their states.

    This includes nodes without staged rows, which must lose rows of the last version. REPLACE PARTITION is atomic on a
    node and repeatable; DROP PARTITION would let a stale attempt wipe a published period. A single replica of a shard
    replaces, and the others follow; all of them record their part of the period.
    """
    if not periods.items:
        return {}
    yield from periods.run_together(follow(periods.first.context, periods.first.staging))
    yield from check_rows(periods)
    looked = yield from periods.ask(_look_once_more)
    periods.update(lambda item: _check_unchanged(item, *looked[item.period]))
    held = periods.select(lambda item: bool(item.held_because))
    states = yield from _hold_periods(held)
    for period in states.keys() | held.failed.keys():
        periods.items.pop(period)
    new = periods.select(lambda item: not item.intended)
    versions = yield from new.run_together(keep_versions(new))
    yield from _record_intents(new)
    periods.merge(new)
    yield from _replace_partitions(periods)
    yield from _mark_lasting(periods)
    states |= yield from _conclude_publication(periods)
    yield from drop_older_versions(periods.select(lambda item: item.period in states and not item.claims), versions)
    periods.merge(held)
    return states


def _hold_periods(periods: Publications[P]) -> Steps[PartitionStates]:
    """Hold the staged rows of periods, record them with the evidence of the published rows, and return that."""
    kept = yield from periods.run(keep_held)
    yield from periods.run_together(_record_objects(periods))
    yield from _write_records(periods, "held", partial(_values_of_held, kept=kept), name="Record {} as held")
    if periods.items:
        yield from drop_held_of(*periods, but=periods.first.attempt.nonce)
    return {item.period: {node: period.state for node, period in item.last_seen.items()} for item in periods}


def _values_of_held(item: Publication, *, kept: Mapping[Period, Mapping[Node, Staged]]) -> _Records:
    policies = item.policies
    of_approval = {"hold_limit_days": float(policies.hold_limit_days), "keep_versions": policies.keep_versions}
    why: Values = {"why": item.held_because + rows_that_fail(item.checks), **of_approval}
    return _values_of_staged(replace(item, staged=kept[item.period]), why)


_Records = Iterator[tuple[Node, str, Values]]


def _look_once_more(
    period_loads: Sequence[P],
) -> Steps[list[tuple[dict[Node, PeriodOnNode], dict[Node, Staged]]]]:
    """Look up periods, and with the same statement staging and the target's structure."""
    load = period_loads[0]
    tables = f"{partitions_query(load)}, {target_query(load.context.target)}"
    period_partitions = {item.period: item.period_partitions for item in period_loads}
    states, beside = yield from look_up_beside(
        load.context, period_partitions, tables, name="Count what is staged once more"
    )
    _check_schema_drift(load, {node: target_facts(facts) for node, (_, *facts) in beside.items()})
    partitions = {node: partitions_of(staged) for node, (staged, *_) in beside.items()}
    return [(states[item.period], staged_of(item, partitions)) for item in period_loads]


def _check_schema_drift(load: Publication, tables: Mapping[Node, TableFacts | None]) -> None:
    """Compare the target's structure on every node with that at the beginning of the load.

    REPLACE PARTITION refuses a staging table of another structure only on the altered node: while an ALTER spreads, it
    would publish half a period.
    """
    context = load.context
    for node, is_now in tables.items():
        was = context.nodes[node].target
        differences = list(_differences(was, is_now)) if was and is_now else ["it is gone"]
        if differences:
            raise TransientError(
                f"{context.target} on {node} was altered while {load.period} was loaded: "
                f"{'; '.join(differences)}. The period was not published. The next run loads into the table as it is "
                "then."
            )


def _differences(was: TableFacts, is_now: TableFacts) -> Iterator[str]:
    if was.uuid != is_now.uuid:
        yield "it was dropped and created again"
    for part in _COMPARED:
        before, after = getattr(was, part), getattr(is_now, part)
        if before != after:
            shown = f"{_show_difference(before, after)} before, {_show_difference(after, before)} now"
            yield f"its {part.replace('_', ' ')}: {shown}"


def _show_difference(value: object, other: object) -> str:
    """Return the elements that the other value lacks."""
    if not isinstance(value, tuple) or not isinstance(other, tuple):
        return repr(value)
    return ", ".join(str(item) for item in value if item not in other) or "none"


def _check_unchanged(item: P, current: Mapping[Node, PeriodOnNode], staged_now: Mapping[Node, Staged]) -> P:
    """Check that nobody else wrote to the period or its staging, and return it as it was seen last."""
    if item.adds:
        item = prove_attached(item, staged_now, current)
    check_seen(item)
    # After its own intent, the load may have lost its staging table, and made another one.
    check_none_newer(item.period, records_of(item.before), current, attempt=item.attempt.nonce)
    if item.increment:
        require_base(item, current)
    else:
        _check_untouched(item, current)
    _check_staged(item, staged_now)
    return replace(item, last_seen=current)


def _record_intents(periods: Publications[P]) -> Steps[None]:
    """Record intents and objects: completing a publication takes both."""
    listed = periods.subset(periods.items)
    writes = (
        _write_records(periods, "intent", _values_of_intent, name="Record the intent to publish {}"),
        listed.run_together(_record_objects(listed)),
    )
    yield from Gather(name="Record intents and objects", workflows=writes)
    for period, error in listed.failed.items():
        periods.set_aside(period, error)


def _record_objects(periods: Publications[P]) -> Steps[None]:
    """Record the objects before publication; they do not count if the attempt is never published."""
    load, recorded = periods.first, list[ObjectsOfPeriod]()
    for item in periods:
        is_whole = item.increment is not None and item.base != item.increment.base
        objects, rows = (yield from all_objects(item)) if is_whole else (item.objects, item.file_rows)
        keys = {node: item.key_on(node) for node in item.context.nodes}
        recorded.append(ObjectsOfPeriod(keys, objects, item.base, rows, item.arrivals_of(objects)))
    query_id = f"{load.attempt.name}_objects"
    yield from record_objects(load.context, recorded, attempt=load.attempt.nonce, query_id=query_id)


def _values_of_intent(item: Publication) -> _Records:
    # It ends what is held of the arrival.
    return _values_of_staged(item, {"why": f"{WITH_ARRIVAL}{item.arrival}"} if item.arrival else {})


def _replace_partitions(periods: Publications[P]) -> Steps[None]:
    """Replace the partitions. An empty source may empty only a partition without staged rows.

    Settings apply to the whole statement: on a node with both kinds, partitions without staged rows come second.
    """
    commands = {item.period: _replacements(item) for item in periods}
    every = [command for of_period in commands.values() for command in of_period]
    first = {
        node: min(command.settings for command in every if command.node == node)
        for node in {command.node for command in every}
    }
    for is_first in (True, False):
        chosen = {
            period: [command for command in of_period if (command.settings == first[command.node]) is is_first]
            for period, of_period in commands.items()
        }
        replaced = periods.subset({period for period, of_period in chosen.items() if of_period})
        yield from replaced.ask(partial(_run_commands, commands=chosen))
        periods.merge(replaced)


def _replacements(load: Publication) -> list[Command]:
    # Older servers lack the setting, and accept an empty source.
    known = EMPTY_SOURCE in load.context.known_settings
    return [
        Command(
            node,
            f"REPLACE PARTITION ID {literal(member.partition_id)} FROM {table(load.staging)}",
            f"{EMPTY_SOURCE} = {int(not member.staged.rows)}" if known else "",
        )
        for node in load.context.publishers
        for member in load.members[node]
        if not member.is_kept
    ]


def _run_commands(period_loads: Sequence[P], *, commands: Mapping[Period, Sequence[Command]]) -> Steps[Sequence[P]]:
    load = period_loads[0]
    try:
        yield from alter_partitions(
            load.context,
            load.context.target,
            (command for item in period_loads for command in commands[item.period]),
            name=f"Publish {periods_text(period_loads)}",
            query_id=f"{load.attempt.name}_publish",
        )
    except ClickHouseServerError as error:
        if error.code in _OTHER_KEY and _OTHER_KEY[error.code] in error.message:
            raise PreflightError(key_type_message(load, error.host)) from error
        if error.code != BAD_ARGUMENTS or EMPTY_SOURCE not in error.message:
            raise
        raise VerificationError(
            f"Staging {load.staging} lost its rows on {error.host} right before they were published: somebody drops "
            "parts of it. The period is unchanged there; other nodes may have the new one. The next run loads it again."
        ) from error
    return period_loads


def key_type_message(load: Publication, host: str) -> str:
    """Return the message for a target with another key type than new tables, such as staging.

    CREATE and a restart evaluate a key under the profile that the server started with; ALTER evaluates it under the
    session's settings, and keeps that in memory. Servers do not show it beforehand: the virtual column
    `_partition_value` has the new type on 25.8 only (seen on 25.8 and 26.9).
    """
    target, key = load.context.target, load.context.table_facts.partition_key
    return (
        f"{target} on {host} accepts no rows of {load.period}: its partition key {key!r} has another type "
        "there than in a new table. An ALTER causes this until the server's next restart, if its session changes what "
        "the key returns (cast_keep_nullable, enable_extended_results_for_datetime_functions …); parts inserted since "
        "then are broken after the restart. The period is unchanged there; other nodes may have the new one. Save what "
        f"others inserted since the ALTER, run DETACH TABLE {table(target)} and ATTACH TABLE {table(target)} there, "
        "and load again."
    )


def _mark_lasting(periods: Publications[P]) -> Steps[None]:
    """Mark the partitions that keep rows in any merge: their removal changes the period."""
    if not periods.items:
        return
    context = periods.first.context
    filled = {
        node: [member.partition_id for item in periods for member in item.members[node] if member.rows]
        for node in context.nodes
    }
    lasting = yield from find_lasting(context, filled)
    periods.update(lambda item: replace(item, lasting=lasting))


def _conclude_publication(periods: Publications[P]) -> Steps[PartitionStates]:
    """Record periods as published as soon as their replaced parts are gone from the disks.

    Until then, the parts reappear beside the new ones if a server is killed or restarted (before 26.6), and on any
    version if it loses power. Periods leave if queries read their replaced parts for too long.
    """
    states, waiting = PartitionStates(), periods.subset(periods.items)
    for seconds in (*_WAITS_FOR_REPLACED_SECONDS, 0):
        held = held_nodes(waiting)
        new_parts = yield from waiting.run_together(remove_replaced(waiting, held))
        looked = yield from waiting.ask(partial(look_at_published, held=held, new_parts=new_parts or {}))
        periods.merge(waiting)
        read = {item.period for item in waiting if looked[item.period][1] & _ids_of(item)}
        done, waiting = waiting.subset(waiting.items.keys() - read), waiting.subset(read)
        states |= yield from _record_published(done, {period: current for period, (current, _) in looked.items()})
        periods.merge(done)
        if not waiting.items:
            return states
        if seconds:
            yield from Sleep(name="Wait for queries that read replaced parts", seconds=seconds)
    for item in waiting:
        error = TransientError(
            f"{item.context.target}: {item.period} was replaced, but queries that began before still read its old "
            f"rows {sum(_WAITS_FOR_REPLACED_SECONDS)} s later (see system.processes). If the server died now, those "
            "rows would come back; so the period is not recorded as published, and the next try loads it again. Run "
            "long queries at another time, or limit them by max_execution_time."
        )
        periods.set_aside(item.period, error)
    return states


def _ids_of(load: Publication) -> set[str]:
    return {member.partition_id for of_node in load.members.values() for member in of_node}


def _check_staged(load: Publication, current: Mapping[Node, Staged]) -> None:
    """Check that staging holds exactly the counted parts: it does not merge, and the period would lose missing rows."""
    for node, counted in load.staged.items():
        if (is_now := current[node]) != counted:
            of_parts = ", in other parts" if is_now.rows == counted.rows else ""
            raise VerificationError(
                f"Staging {load.staging} on {node} held {counted.rows} rows of {load.period} when they were "
                f"counted, and holds {is_now.rows} now{of_parts}: somebody else writes to it, or drops parts of it. "
                "The period was not published."
            )


def _write_records(
    periods: Publications[P], event: str, records_of_item: Callable[[P], _Records], *, name: str
) -> Steps[None]:
    """Write the records of all periods with one statement; see `Batch.ask`."""
    records = {item.period: list(records_of_item(item)) for item in periods}

    def write(items: Sequence[P]) -> Steps[Sequence[P]]:
        load = items[0]
        yield from add_records(
            load.context,
            event,
            ((node, item.key_on(node, key), values) for item in items for node, key, values in records[item.period]),
            name=name.format(periods_text(items)),
            staging=load.staging,
            # The prefix lets an attempt that takes over end these statements first.
            query_id=f"{load.attempt.name}_{event}",
        )
        return items

    yield from periods.ask(write)


def _record_published(
    periods: Publications[P], current: Mapping[Period, Mapping[Node, PeriodOnNode]]
) -> Steps[PartitionStates]:
    """Record periods as published, if their partitions hold the staged rows."""
    periods.apply(lambda item: check_published(item, current[item.period]))
    values = partial(_values_of_published, current=current)
    yield from _write_records(periods, "published", values, name="Record {} as published")
    return {item.period: {node: period.state for node, period in current[item.period].items()} for item in periods}


def _values_of_staged(item: Publication, further: Values) -> _Records:
    for node, members in item.members.items():
        structure = _structure(item, node)
        for member in members:
            state, beside = member.was.state, member.staged
            values = values_of(item, rows=member.rows, state=state, beside=beside, structure=structure)
            yield node, member.partition_id, {**values, **further}


def _structure(item: Publication, node: Node) -> str:
    return item.intended[node].structure if item.intended else item.structure_on(node)


def _values_of_published(item: Publication, *, current: Mapping[Period, Mapping[Node, PeriodOnNode]]) -> _Records:
    on_nodes = current[item.period]
    shards = rows_of_shards(on_nodes)
    for node, members in item.members.items():
        structure, of_intent = _structure(item, node), item.intended.get(node)
        attempt_values = of_intent.of_attempt if of_intent else {}
        for member in members:
            state = replace(on_nodes[node].at(member.partition_id).state, lasts=member.lasts)
            values = values_of(item, rows=state.rows, state=state, rows_of_shards=shards, structure=structure)
            yield node, member.partition_id, {**values, **attempt_values}


def _check_untouched(load: Publication, current: Mapping[Node, PeriodOnNode]) -> None:
    if load.policies.on_target_changed == "reload":
        return
    for node, period in current.items():
        for partition in period.each:
            if _is_written_by_others(load, load.before[node].at(partition.partition_id), partition):
                raise TargetChangedError(
                    f"{load.context.target} on {node}: somebody wrote to partition {partition.shown} while "
                    f"{load.period} was loaded. The period was not published. Find out who does; "
                    "policies={'on_target_changed': 'reload'} replaces such rows."
                )


def _is_written_by_others(load: Publication, before: PeriodOnNode, current: PeriodOnNode) -> bool:
    """Check whether anybody but a load wrote to the partition since the comparison."""
    was, is_now, facts = before.state, current.state, load.context.table_facts
    if current.record is not None and before.record == current.record and is_changed(before, table_facts=facts):
        # It may have lost parts before this load began, and may lose more. Only merges may have added parts.
        added = set(is_now.each_part or ()) - set(was.each_part or ())
        return bool(added) and not is_explained(was.evidence(), is_now, table_facts=facts)
    if current.record is not None:
        return is_changed(current, table_facts=facts)
    # Replicas number blocks from 0, so the first foreign block has the same number as no block at all.
    return (is_now.rows > 0 and not was.rows) or max(is_now.max_block, is_now.data_version) > max(
        was.max_block, was.data_version
    )
