"""Step 8 of a load: replace the partition on every node, and record it there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from airflow_provider_chs3.core.attempt.insert_plan import InsertPlan
from airflow_provider_chs3.core.attempt.load_context import LoadContext, values_of
from airflow_provider_chs3.core.attempt.newer_records import check_none_newer, records_of
from airflow_provider_chs3.core.cluster.replication import follow
from airflow_provider_chs3.core.cluster.table_facts import target_facts, target_query
from airflow_provider_chs3.core.increment.completion import require_base
from airflow_provider_chs3.core.increment.removal import with_kept
from airflow_provider_chs3.core.insertion.staged_rows import Staged, partitions_of, partitions_query, staged_of
from airflow_provider_chs3.core.ledger.comparison import is_changed
from airflow_provider_chs3.core.ledger.partition_changes import is_made_of_staged, undone_mutation, without_old_patches
from airflow_provider_chs3.core.ledger.partition_state import PartitionState, rows_of_shards
from airflow_provider_chs3.core.ledger.parts import Contents
from airflow_provider_chs3.core.ledger.recording import NewRecord
from airflow_provider_chs3.core.ledger.records import MonthOnNode, Values
from airflow_provider_chs3.core.object_history.records import record_objects
from airflow_provider_chs3.core.publication.evidence_renewal import structure_text
from airflow_provider_chs3.core.publication.schema_drift import check_schema_drift
from airflow_provider_chs3.core.sql.quoting import Sql, literal, table
from airflow_provider_chs3.core.staging.partitions import Command, alter_partition
from airflow_provider_chs3.core.staging.tables import ddl_settings
from airflow_provider_chs3.core.tuning.exact_settings import EMPTY_SOURCE
from airflow_provider_chs3.core.values.models import Node, S3Object
from airflow_provider_chs3.core.workflow.operations import Gather, QueryNodes, Sleep, Steps
from airflow_provider_chs3.exceptions import (
    ClickHouseServerError,
    PreflightError,
    TargetChangedError,
    TransientError,
    VerificationError,
)

_BAD_ARGUMENTS = 36
#: Error codes of a server that reads the partition of a staged part by another type, each with what it then says.
_OTHER_KEY = {33: "Cannot read all data", 246: "calculated partition ID"}
#: The ids of partitions are made of digits, or of hexadecimal ones: none has this.
_NO_PARTITION = "chs3-none"
#: Queries that read a part keep it on the disk.
_WAITS_FOR_REPLACED_SECONDS = (1, 2, 4, 8, 15, 30, 30, 30)


def publish(
    load: LoadContext, plan: InsertPlan, before: Mapping[Node, MonthOnNode], staged: Mapping[Node, Staged]
) -> Steps[dict[Node, PartitionState]]:
    """Replace the month's partition on every node with the staged rows.

    Nodes without staged rows are included: a node that held rows of the last version must lose them. REPLACE PARTITION
    is atomic on a node and can be repeated; DROP PARTITION would let a stale attempt wipe a published month. One
    replica of a shard replaces it and the others follow; each records its own part of the month.

    Args:
        load: The load.
        plan: The plan of the insert.
        before: The month on each node when the load decided.
        staged: The staged rows of each node.

    Returns:
        The partition on each node.

    Raises:
        TargetChangedError: If somebody else wrote to the partition meanwhile, or changed it right afterwards.
        ObjectsChangedError: If another load published the month meanwhile.
        TransientError: If the target was altered meanwhile.
        VerificationError: If staging, or then the partition, does not hold the rows that were counted.
        PreflightError: If the target's partition key has another type than in staging.
    """
    looks = (load.look_up(), _look_once_more(load))
    now, staged_now = yield from Gather(name=f"Look at {load.context.target} before it is published", workflows=looks)
    # Of several months, one may have lost the table that it was about to be published from, after its own intent.
    check_none_newer(load.request.month, records_of(before), now, attempt=load.request.nonce)
    if load.increment:
        require_base(load, before, now)
    else:
        _check_untouched(load, before, now)
    _check_staged(load, staged, staged_now)
    intents = {
        node: values_of(load, rows=each.rows, state=now[node].state, beside=each.contents)
        for node, each in staged_now.items()
    }
    yield from _record(load, "intent", intents, name=f"Record the intent to publish {load.request.month}")
    yield from _record_objects(load, plan)
    yield from _replace(load, staged)
    yield from _remove_replaced(load, {node: month.state for node, month in now.items()})
    yield from follow(load.context, load.context.target)
    months = yield from load.look_up(with_records=False)
    _check_same_table(load, months, staged_now)
    states = {node: month.state for node, month in months.items()}
    _check_published(
        load, staged_now, {node: without_old_patches(each, now[node].state) for node, each in states.items()}
    )
    _check_none_undone(load, {node: month.state for node, month in now.items()}, states)
    yield from _record_published(load, plan, states, replaced={node: each.state.contents for node, each in now.items()})
    return states


def _look_once_more(load: LoadContext) -> Steps[dict[Node, Staged]]:
    """Look at the target's structure and at staging, with one statement: it takes servers little longer than either."""
    context = load.context
    yield from follow(context, load.staging)
    sql = Sql(f"SELECT {partitions_query(load.staging)}, {target_query(context.target)}")
    answers = yield from context.on_each(name="Count what is staged once more", sql=sql)
    check_schema_drift(load, {node: target_facts(facts) for node, ((_, *facts),) in answers.items()})
    return {node: staged_of(load, partitions_of(found)) for node, ((found, *_),) in answers.items()}


def _record_objects(load: LoadContext, plan: InsertPlan) -> Steps[None]:
    """Record the objects before the month is published; those of an attempt that is never published do not count."""
    context = load.context
    objects: Sequence[S3Object] = load.files.manifest.objects
    rows: Sequence[int] | None = plan.reading.file_rows
    if load.increment and load.increment.removed:
        objects, rows = yield from with_kept(load, rows)
    yield from record_objects(
        context.ledger,
        {node: load.key_on(node) for node in context.nodes},
        objects,
        base=load.base,
        attempt=load.request.nonce,
        rows=rows,
        query_id=f"{load.attempt.name}_objects",
    )


def _replace(load: LoadContext, staged: Mapping[Node, Staged]) -> Steps[None]:
    try:
        for name, commands in _replacements(load, staged):
            yield from alter_partition(
                load.context.target,
                commands,
                name=name,
                settings=ddl_settings(load.context),
                query_id=f"{load.attempt.name}_publish",
            )
    except ClickHouseServerError as error:
        if error.code in _OTHER_KEY and _OTHER_KEY[error.code] in error.message:
            raise PreflightError([_key_of_other_type(load, error.host)]) from error
        if error.code != _BAD_ARGUMENTS or EMPTY_SOURCE not in error.message:
            raise
        raise VerificationError(
            f"Staging {load.staging} lost its rows on {error.host} right before they were published: somebody drops "
            "parts of it. The month is unchanged there; other nodes may have the new one. The next run loads it again."
        ) from error


def _key_of_other_type(load: LoadContext, host: str) -> str:
    """Return the message for a target whose key got another type than in new tables, of which staging is one.

    CREATE and a restart evaluate a key under the profile with which the server started; ALTER evaluates it under the
    session's settings, and keeps that in memory. No server says so before: the virtual column `_partition_value` has
    the new type on 25.8 only (seen on 25.8 and 26.9).
    """
    target, key = load.context.target, load.context.table_facts.partition_key
    return (
        f"{target} on {host} takes no rows of {load.request.month}: its partition key {key!r} has another type there "
        "than in a new table. An ALTER causes this until the server's next restart, if its session changes what the "
        "key returns (cast_keep_nullable, enable_extended_results_for_datetime_functions …); parts inserted since then "
        "are broken after the restart. The month is unchanged there; other nodes may have the new one. Save what "
        f"others inserted since the ALTER, run DETACH TABLE {table(target)} and ATTACH TABLE {table(target)} there, "
        "and load again."
    )


def _replacements(load: LoadContext, staged: Mapping[Node, Staged]) -> Iterator[tuple[str, dict[Node, Command]]]:
    """Yield steps, each with a command for nodes: only if nothing was staged on a node may it empty the month there.

    Months that share a statement share that setting, so nodes without rows come after the others. Older servers do not
    know the setting, and accept an empty source.
    """
    name, command = f"Publish {load.request.month}", f"REPLACE PARTITION ID {literal(load.key.partition_id)} FROM "
    is_known = EMPTY_SOURCE in load.context.known_settings
    commands = {
        node: Command(
            f"{command}{table(load.staging)}", f"{EMPTY_SOURCE} = {int(not staged[node].rows)}" if is_known else ""
        )
        for node in load.context.publishers
    }
    if not load.shared:
        yield name, commands
        return
    yield name, {node: each for node, each in commands.items() if staged[node].rows}
    yield f"{name} where it is empty", {node: each for node, each in commands.items() if not staged[node].rows}


def _remove_replaced(load: LoadContext, before: Mapping[Node, PartitionState]) -> Steps[None]:
    """Remove the replaced parts from the disks, and wait until they are gone.

    Until then, they reappear beside the new ones if a server is killed or restarted (before 26.6), and on any version
    if it loses power. A statement that detaches a partition removes them at once, even where merges are stopped (seen
    on 25.8 and 26.9). Replicas know from Keeper what was replaced.

    Raises:
        TransientError: If queries read them for too long.
    """
    nodes = [] if load.context.table_facts.is_replicated else [node for node, state in before.items() if state.parts]
    sql = Sql(f"ALTER TABLE {table(load.context.target)} DETACH PARTITION ID {literal(_NO_PARTITION)}")
    target = load.context.target
    look = Sql(
        f"SELECT count() FROM system.parts WHERE database = {literal(target.database)} AND table = "
        f"{literal(target.table)} AND partition_id = {literal(load.key.partition_id)} AND rows > 0 "
        "AND _state IN ('Outdated', 'Deleting')"
    )
    for seconds in (*_WAITS_FOR_REPLACED_SECONDS, 0):
        if not nodes:
            return
        yield from QueryNodes(
            name="Remove the replaced parts",
            sql=dict.fromkeys(nodes, sql),
            settings=ddl_settings(load.context),
            query_id=f"{load.attempt.name}_remove",
        )
        answers = yield from QueryNodes(name="Look for replaced parts", sql=dict.fromkeys(nodes, look))
        nodes = [node for node, rows in answers.items() if rows[0][0]]
        if nodes and seconds:
            yield from Sleep(name="Wait for queries that read replaced parts", seconds=seconds)
    raise TransientError(
        f"{load.context.target} on {', '.join(map(str, nodes))}: {load.request.month} was replaced, but queries that "
        f"began before still read its old rows {sum(_WAITS_FOR_REPLACED_SECONDS)} s later (see system.processes). If "
        "the server died now, those rows would come back; so the month is not recorded as published, and the next "
        "try loads it again. Run long queries at another time, or give them max_execution_time."
    )


def _check_staged(load: LoadContext, staged: Mapping[Node, Staged], now: Mapping[Node, Staged]) -> None:
    """Check that staging did not lose rows since they were counted, which would be lost from the month.

    Of several months it must hold the very parts that were counted, to which it has links.
    """
    for node, each in staged.items():
        is_other = load.shared is not None and not each.contents.has_parts_of(now[node].contents)
        if now[node] != each or is_other:
            raise VerificationError(
                f"Staging {load.staging} on {node} held {each.rows} rows of {load.request.month} when they were "
                f"counted, and holds {now[node].rows} now{', in other parts' if is_other else ''}: somebody else "
                "writes to it, or drops parts of it. Nothing was published."
            )


def _record(load: LoadContext, event: str, values: Mapping[Node, Values], *, name: str) -> Steps[None]:
    context = load.context
    new = NewRecord(
        ledger=context.ledger,
        event=event,
        values={node: (load.key_on(node), each) for node, each in values.items()},
        staging=load.staging,
        is_replicated=context.table_facts.is_replicated,
    )
    # They have query ids, so that an attempt that takes over can end these statements first.
    yield from new.step(name, query_id=f"{load.attempt.name}_{event}")


def _record_published(
    load: LoadContext, plan: InsertPlan, states: Mapping[Node, PartitionState], *, replaced: Mapping[Node, Contents]
) -> Steps[None]:
    records, shards = {}, rows_of_shards(states)
    for node, state in states.items():
        structure = structure_text(load, node, loaded=plan.reading.loaded, in_files=plan.reading.names)
        records[node] = values_of(
            load, rows=state.rows, state=state, rows_of_shards=shards, beside=replaced[node], structure=structure
        )
    yield from _record(load, "published", records, name=f"Record {load.request.month} as published")


def _check_untouched(load: LoadContext, before: Mapping[Node, MonthOnNode], now: Mapping[Node, MonthOnNode]) -> None:
    if load.request.policies.on_target_changed == "reload":
        return
    for node, month in now.items():
        if _is_written_by_others(load, before[node], month):
            raise TargetChangedError(
                f"{load.context.target} on {node}: somebody wrote to partition {load.key.partition_id} while "
                f"{load.request.month} was loaded. Nothing was published. Find out who does; "
                "policies={'on_target_changed': 'reload'} replaces such rows."
            )


def _is_written_by_others(load: LoadContext, before: MonthOnNode, now: MonthOnNode) -> bool:
    """Check whether anybody but a load wrote to the partition since this load first looked."""
    was, is_now = before.state, now.state
    if (
        now.record is not None
        and before.record == now.record
        and is_changed(before, table_facts=load.context.table_facts)
    ):
        # A server lost parts of it before this load began: none may have been added since.
        return bool(set(is_now.each_part or ()) - set(was.each_part or ()))
    if now.record is not None:
        return is_changed(now, table_facts=load.context.table_facts)
    # Replicas number from 0, so that the first block of others has no higher number than no block at all.
    return (is_now.rows > 0 and not was.rows) or max(is_now.max_block, is_now.data_version) > max(
        was.max_block, was.data_version
    )


def _check_same_table(load: LoadContext, months: Mapping[Node, MonthOnNode], staged: Mapping[Node, Staged]) -> None:
    """Check that the target's name still means the table that was looked at: no ALTER takes the UUID of a table."""
    for node, month in months.items():
        was = load.key_on(node).target_uuid
        if month.table_uuid == was:
            continue
        is_hit = month.state.rows == staged[node].rows and is_made_of_staged(staged[node].contents, month.state)
        raise TargetChangedError(
            f"{load.context.target} on {node} became another table (by EXCHANGE, RENAME or DROP) at the moment when "
            f"{load.request.month} was published: its UUID was {was}, and is {month.table_uuid or 'gone'}. "
            + (
                f"All rows that the new table had in partition {load.key.partition_id} were replaced by the objects' "
                "rows: restore them if they are not of these objects."
                if is_hit
                else "The objects' rows went to the old table."
            )
            + " The month is not recorded as published. Swap tables only while no load runs."
        )


def _check_none_undone(
    load: LoadContext, before: Mapping[Node, PartitionState], after: Mapping[Node, PartitionState]
) -> None:
    """Check that no DELETE or UPDATE came between the last look at the month and its publication, which undid it."""
    if load.increment is None and load.request.policies.on_target_changed == "reload":
        return
    for node, state in after.items():
        command = undone_mutation(state, after=before[node].last_mutation) if before[node].rows else ""
        if command:
            raise TargetChangedError(
                f"{load.context.target} on {node}: somebody changed {load.request.month} at the moment when it was "
                f"published, and that change is undone: {command}. It is not recorded as published. Load the month "
                "with policies={'on_target_changed': 'reload'}, and run that statement again afterwards."
            )


def _check_published(load: LoadContext, staged: Mapping[Node, Staged], states: Mapping[Node, PartitionState]) -> None:
    for node, state in states.items():
        wanted = staged[node].rows
        # Other engines merge rows away, and TTL drops them, at any moment: there, only more rows than staged are wrong.
        wrong = state.rows != wanted if load.context.table_facts.keeps_every_row else state.rows > wanted
        if wrong:
            raise VerificationError(
                f"{load.context.target} on {node} holds {state.rows} rows of {load.request.month} right after "
                "publishing, "
                f"but {wanted} were staged: somebody else writes to it. It is not recorded as published. Find out who "
                "does; policies={'on_target_changed': 'reload'} loads it again."
            )
        if not is_made_of_staged(staged[node].contents, state):
            raise TargetChangedError(
                f"{load.context.target} on {node}: somebody changed partition {load.key.partition_id} right after "
                f"{load.request.month} was published. It is not recorded as published. Find out who does; "
                "policies={'on_target_changed': 'reload'} loads it again."
            )
