"""Insert the objects of several months into one staging table, and prove it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from airflow_provider_chs3.core.attempt.load_context import LoadContext, values_of
from airflow_provider_chs3.core.attempt.resume import DoneInsert
from airflow_provider_chs3.core.group.planning import GroupPlan
from airflow_provider_chs3.core.insertion.insert import insert
from airflow_provider_chs3.core.insertion.staged_rows import NO_PARTITION, StagedPartition, count_partitions
from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.recording import NewRecord
from airflow_provider_chs3.core.ledger.table import make_ledger
from airflow_provider_chs3.core.load.planning import ComparedMonth
from airflow_provider_chs3.core.object_history.table import make_objects_table
from airflow_provider_chs3.core.proof.row_counts import rows_of_source
from airflow_provider_chs3.core.staging.ending import end_earlier_attempts
from airflow_provider_chs3.core.staging.tables import create_staging
from airflow_provider_chs3.core.values.models import Manifest, Month, Node
from airflow_provider_chs3.core.values.quantities import quantity
from airflow_provider_chs3.core.workflow.lockstep import in_lockstep
from airflow_provider_chs3.core.workflow.operations import Gather, InsertStats, Log, Steps
from airflow_provider_chs3.exceptions import Chs3Error, VerificationError

#: No retry resumes a group's insert: its end is only for the page, and the records of all months take longer than
#: the steps that follow a short one.
_END_RECORDED_FROM_SECONDS = 10


@dataclass(frozen=True, kw_only=True)
class GroupStaged:
    """The rows of several months in one staging table.

    Args:
        group: The months, whose load has a ledger on every node.
        partitions: The partitions of staging on each node, by their ids.
        counted_by: Source of the number of rows; see `core.proof.row_counts`.
        done: The inserts.
        changed: Months whose objects changed meanwhile.
    """

    group: GroupPlan
    partitions: Mapping[Node, Mapping[str, StagedPartition]]
    counted_by: str
    done: tuple[DoneInsert, ...]
    changed: frozenset[Month]

    def of_month(self, each: ComparedMonth) -> dict[Node, StagedPartition]:
        """Return what is staged of a month on each node."""
        partition_id = each.load.key.partition_id
        return {node: found.get(partition_id, NO_PARTITION) for node, found in self.partitions.items()}

    @property
    def together(self) -> dict[str, object]:
        """The months of the group and the seconds of their inserts, for the records of each."""
        return {"months": str(self.group.load.months), "seconds": round(self.insert_seconds, 3)}

    @property
    def insert_seconds(self) -> float:
        """Seconds of the inserts of all months."""
        return sum(one.stats.seconds for one in self.done)

    def share_of(self, load: LoadContext) -> float:
        """Return a month's share of the time that all take together, by the bytes of its objects."""
        return load.files.manifest.size_bytes / max(self.group.load.files.manifest.size_bytes, 1)

    def inserts_of(self, each: ComparedMonth, rows: int) -> tuple[DoneInsert, ...]:
        """Return the inserts with a month's share of their time.

        Args:
            each: The month.
            rows: Its rows.
        """
        seconds = self.insert_seconds * self.share_of(each.load)
        peaks = [one.stats.peak_memory_bytes for one in self.done if one.stats.peak_memory_bytes is not None]
        first, *others = (one.query_id for one in self.done)
        stats = InsertStats(seconds, rows, max(peaks, default=None))
        return (DoneInsert(first, stats), *(DoneInsert(query_id, InsertStats(0, 0, None)) for query_id in others))


def insert_group(group: GroupPlan) -> Steps[GroupStaged]:
    """Stage the rows of all months, and prove that they are the rows of their objects.

    Each row is in the month of its file, or the insert fails; so with the number of all rows each month's is proved.

    Args:
        group: The months, and the plan.

    Raises:
        Chs3Error: If the insert fails, or is not proved. Nothing was published.
    """
    group = yield from _prepare(group)
    load, plan = group.load, group.plan
    own = [each.load.attempt for each in group.months]
    yield from create_staging(load.context, load.attempt, without_merges=True, months=own)
    yield from _record_months(group)
    load = yield from load.end_step("stage")
    inserted = yield from insert(load, plan, into=load.staging)
    if inserted.stats.seconds >= _END_RECORDED_FROM_SECONDS:
        yield from _record_months(group, done=inserted.done)
    load = yield from load.end_step("insert", at_least_seconds=inserted.stats.seconds)
    changed, partitions = yield from Gather(
        name="List again, and count what is staged",
        workflows=(_changed(group), count_partitions(load, name="Count what is staged")),
    )
    _check_partitions(group, partitions)
    counted = yield from rows_of_source(load, plan.reading, inserted.done)
    staged = sum(each.rows for node in load.context.publishers for each in partitions[node].values())
    if staged != counted.rows:
        raise VerificationError(
            f"The objects of {load.months} hold {counted.rows} rows, but {staged} were staged. Nothing was published."
        )
    load = yield from load.end_step("verify")
    return GroupStaged(
        group=replace(group, load=load),
        partitions=partitions,
        counted_by=counted.counted_by,
        done=inserted.done,
        changed=changed,
    )


def _prepare(group: GroupPlan) -> Steps[GroupPlan]:
    """Create what is missing on the nodes, and end earlier attempts at these months."""
    load = group.load
    context = load.context
    yield from make_ledger(context, context.nodes)
    yield from make_objects_table(context)
    yield from end_earlier_attempts(context, load.attempt, *(each.load.attempt for each in group.months))
    months = tuple(replace(each, load=each.load.with_ledger()) for each in group.months)
    return replace(group, load=load.with_ledger(), months=months)


def _record_months(group: GroupPlan, *, done: Sequence[DoneInsert] = ()) -> Steps[None]:
    """Record on the coordinator that the months are being inserted, for the page, and for a retry of the task.

    Args:
        group: The months.
        done: The inserts, once all have ended.
    """
    load, plan = group.load, group.plan
    shared = {
        "owner": load.request.owner,
        "is_durable": False,
        "plan": {name: value for name, value in plan.as_json().items() if name != "groups"},
        "running": "" if done else f"{load.attempt.name}_insert1",
        "done": [asdict(each) for each in done],
    }
    coordinator = load.context.coordinator

    def recorded(each: ComparedMonth) -> Steps[None]:
        details = {**shared, **each.load.read_sizes, "reason": each.to_load.reason}
        values = values_of(each.load, rows=0, state=PartitionState(), details=details)
        new = NewRecord(
            ledger=load.context.ledger,
            event="inserting",
            values={coordinator: (each.load.key_on(coordinator), values)},
            staging=load.staging,
        )
        yield from new.step(f"Record that {each.month} is {'inserted' if done else 'being inserted'}")

    outcomes = yield from in_lockstep([recorded(each) for each in group.months], name=load.attempt.name)
    for outcome in outcomes:
        if isinstance(outcome, Chs3Error):
            raise outcome


def _changed(group: GroupPlan) -> Steps[frozenset[Month]]:
    """Return the months whose objects changed while they were loaded."""
    months = {each.month: each.load.manifest for each in group.months}
    now: Mapping[Month, Manifest]
    _, now = yield from group.load.files.source.list_months(months)
    added = sum(manifest.added_in(now[month]) for month, manifest in months.items())
    if added:
        yield from Log(name=f"{quantity(added, 'object')} arrived during the load: the next run loads them.")
    return frozenset(month for month, manifest in months.items() if manifest.changes_in(now[month]))


def _check_partitions(group: GroupPlan, partitions: Mapping[Node, Mapping[str, StagedPartition]]) -> None:
    """Check that staging has the months' partitions alone, and the same rows on all replicas of a shard."""
    load = group.load
    known = {each.load.key.partition_id for each in group.months}
    publishers = {node.shard_num: node for node in load.context.publishers}
    for node, found in partitions.items():
        others = sorted(each.name for partition_id, each in found.items() if partition_id not in known)
        if others:
            raise VerificationError(
                f"Staging {load.staging} on {node} has rows of other months ({', '.join(others[:5])}): somebody else "
                "writes to it. Nothing was published."
            )
        publisher = publishers[node.shard_num]
        rows, wanted = ({name: each.rows for name, each in partitions[one].items()} for one in (node, publisher))
        if rows != wanted:
            raise VerificationError(
                f"Staging {load.staging} holds other rows on {node} than on {publisher}, its replica. Nothing was "
                "published."
            )
