"""Steps 6 and 7 of a load: insert exactly the manifest's objects, and prove it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.attempt.insert_plan import InsertPlan
from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.attempt.resume import DoneInsert, InitialState, ResumableLoad, record_resumable_load
from airflow_provider_chs3.core.files.parse_errors import file_of
from airflow_provider_chs3.core.insertion.insert_statement import insert_step
from airflow_provider_chs3.core.insertion.readers import check_keys, with_readers
from airflow_provider_chs3.core.insertion.staged_rows import Staged, count_staged
from airflow_provider_chs3.core.proof.failed_insert import explain_conversion, explain_parsing
from airflow_provider_chs3.core.proof.misfits import find_misfits
from airflow_provider_chs3.core.proof.row_counts import rows_of_source
from airflow_provider_chs3.core.values.error_codes import is_of_servers
from airflow_provider_chs3.core.values.models import Manifest, Node, TableName
from airflow_provider_chs3.core.values.quantities import quantity
from airflow_provider_chs3.core.workflow.operations import Gather, Insert, InsertStats, Log, Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError, ObjectsChangedError, SourceError, VerificationError

#: What ClickHouse calls a condition that is not kept.
_THROWN = 395
#: A record takes some milliseconds, which of a short load are felt.
_RECORDED_FROM_SECONDS = 1
#: Errors that a value can cause: it cannot be parsed, cast, or be NULL.
_VALUE_ERRORS = frozenset(
    [*(6, 25, 26, 27, 28, 32, 36, 38, 41, 43, 53, 69, 70, 72, 117, 130, 131), *(321, 349, 376, _THROWN, 407, 441, 467)]
) | {632, 675, 676, 691}


@dataclass(frozen=True, slots=True)
class Inserted:
    """The inserts of one load.

    Args:
        done: Each of them.
    """

    done: tuple[DoneInsert, ...]

    @property
    def stats(self) -> InsertStats:
        """Seconds and rows read in total, and the highest peak of memory."""
        every = [each.stats for each in self.done]
        peaks = [each.peak_memory_bytes for each in every if each.peak_memory_bytes is not None]
        return InsertStats(
            seconds=sum(each.seconds for each in every),
            read_rows=sum(each.read_rows for each in every),
            peak_memory_bytes=max(peaks, default=None),
        )

    @property
    def is_end_recorded(self) -> bool:
        """Whether they took long enough for somebody to look, or for a retry to save time, before all is published."""
        return self.stats.seconds >= _RECORDED_FROM_SECONDS

    @property
    def query_ids(self) -> tuple[str, ...]:
        """The query id of each insert."""
        return tuple(each.query_id for each in self.done)


def insert(
    load: LoadContext,
    plan: InsertPlan,
    *,
    into: TableName,
    initial_state: InitialState | None = None,
    done: Sequence[DoneInsert] = (),
) -> Steps[Inserted]:
    """Insert the manifest's objects: every node writes what it reads, or the sharding key distributes the rows.

    Args:
        load: The load.
        plan: The plan of the insert.
        into: The table on every node.
        initial_state: Recorded before each insert, so that another process can resume it; None records nothing.
        done: The first inserts, whose end an earlier process has seen.

    Raises:
        SourceError: If a value does not fit; it names column, file and value.
    """
    so_far = list(done)
    load = yield from with_readers(load)
    for number, (group, batch) in enumerate(plan.reading.batches(load.files), start=1):
        if number <= len(done):
            continue
        query_id = f"{load.attempt.name}_insert{number}"
        if initial_state:
            yield from record_resumable_load(load, plan, initial_state, done=so_far, running=query_id)
        step = insert_step(load, plan, group, batch, into=into, query_id=query_id)
        so_far.append(DoneInsert(query_id, (yield from _run(load, plan, step))))
    inserted = Inserted(tuple(so_far))
    if initial_state and inserted.is_end_recorded and len(so_far) > len(done):
        yield from record_resumable_load(load, plan, initial_state, done=so_far, running="")
    return inserted


def await_insert(load: LoadContext, plan: InsertPlan, resumable: ResumableLoad) -> Steps[tuple[DoneInsert, ...]]:
    """Wait for the insert that an earlier process started.

    Args:
        load: The load, with the nonce of that attempt.
        plan: The plan of the insert.
        resumable: The record of that attempt.

    Returns:
        All inserts that have ended.

    Raises:
        SourceError: As in `insert`.
        ClickHouseServerError: The error of the insert.
    """
    if not resumable.running:
        return resumable.done
    group, batch = plan.reading.batches(load.files)[len(resumable.done)]
    step = insert_step(load, plan, group, batch, into=load.staging, query_id=resumable.running)
    stats = yield from _run(load, plan, replace(step, is_started=True))
    return (*resumable.done, DoneInsert(resumable.running, stats))


def _run(load: LoadContext, plan: InsertPlan, step: Insert) -> Steps[InsertStats]:
    try:
        stats = yield from step
        return stats
    except ClickHouseServerError as error:
        if error.code in _VALUE_ERRORS or (file_of(error) and not is_of_servers(error)):
            yield from _explain(load, plan, error)
        raise


def _explain(load: LoadContext, plan: InsertPlan, error: ClickHouseServerError) -> Steps[None]:
    try:
        found = yield from _explanation(load, plan, error)
    except ClickHouseServerError:
        # Servers failed meanwhile, which says nothing of the file.
        return
    if found:
        raise SourceError(found) from error


def _explanation(load: LoadContext, plan: InsertPlan, error: ClickHouseServerError) -> Steps[str | None]:
    reading, null_as_default = plan.reading, load.request.selection.null_as_default
    files = replace(
        load.files,
        settings={**load.context.permissions, **load.files.settings},
        # All rows, as one server reads them: each of several reads its own slice, and a look is at one of them.
        source=load.files.source.read_by(()),
    )
    try:
        found = yield from find_misfits(files, reading, null_as_default=null_as_default)
    except ClickHouseServerError as again:
        if is_of_servers(again):
            raise
        # Rather not the value, but the file, or an expression of the user's.
        found = None
        error = again if file_of(again) else error
    files = replace(files, settings={**files.settings, **plan.setting_values})
    found = found or (yield from explain_parsing(files, reading, error))
    return found or (yield from explain_conversion(files, reading, null_as_default=null_as_default))


@dataclass(frozen=True, slots=True)
class Verified:
    """The staged rows, and the proof that they are the objects' rows.

    Args:
        staged: The staged rows of each node.
        rows: Rows of the objects.
        counted_by: Source of that number; see `core.proof.row_counts`.
    """

    staged: Mapping[Node, Staged]
    rows: int
    counted_by: str


def verify(load: LoadContext, plan: InsertPlan, inserted: Inserted) -> Steps[Verified]:
    """Prove that staging holds exactly the rows of the manifest's objects.

    Args:
        load: The load.
        plan: The plan of the insert.
        inserted: The inserts.

    Raises:
        ObjectsChangedError: If objects changed since they were listed.
        VerificationError: If rows are missing, or there are too many.
        SourceError: If rows belong to other months and that is an error.
    """
    month, source, increment = load.request.month, load.files.source, load.increment
    looks = (source.list_month(month), count_staged(load, name="Count what is staged"))
    staged: dict[Node, Staged]
    (_, now), staged = yield from Gather(name="List again, and count what is staged", workflows=looks)
    check_objects(load, now)
    if added := load.manifest.added_in(now):
        yield from Log(name=f"{quantity(added, 'object')} of {month} arrived during the load: the next run loads them.")
    _check_replicas(load, staged)
    # A row counts once, however many replicas have it.
    once = {node: staged[node] for node in load.context.publishers}
    attached = {node: increment.attached_on(node) if increment else 0 for node in once}
    rows = {node: each.rows + sum(each.other_rows.values()) - attached[node] for node, each in once.items()}
    counted = yield from rows_of_source(load, plan.reading, inserted.done)
    if sum(rows.values()) != counted.rows:
        # A second read may have met other versions of the objects.
        check_objects(load, (yield from source.list_month(month))[1])
        per_node = ", ".join(f"{node}: {count}" for node, count in rows.items())
        raise VerificationError(
            f"{month} must hold {counted.rows} rows, but {sum(rows.values())} were staged ({per_node}). "
            "Nothing was published."
        )
    yield from check_keys(load, plan.reading)
    others: Counter[str] = Counter()
    for each in once.values():
        others.update(each.other_rows)
    if others and load.request.policies.on_other_months == "fail":
        counts = ", ".join(f"{partition}: {count}" for partition, count in sorted(others.items()))
        source = load.files.source
        raise source.kind.contents.of_other_months(load.request.month, source.place, counts)
    return Verified(staged, counted.rows, counted.counted_by)


def check_objects(load: LoadContext, now: Manifest, *, cause: Exception | None = None) -> None:
    """Check that the objects of a load are as they were listed; what came since is the next run's.

    Args:
        load: The load.
        now: The objects as they are listed now.
        cause: The error that may come of a change; none by default.

    Raises:
        ObjectsChangedError: If one was overwritten or deleted.
    """
    if changes := load.manifest.changes_in(now):
        raise ObjectsChangedError(
            f"Objects of {load.request.month} changed while they were loaded: {changes}. Nothing was published."
        ) from cause


def _check_replicas(load: LoadContext, staged: Mapping[Node, Staged]) -> None:
    """Check that the replica that publishes has staged the same rows as the others of its shard."""
    publishers = {node.shard_num: node for node in load.context.publishers}
    for node, each in staged.items():
        publisher = publishers[node.shard_num]
        if each != staged[publisher]:
            raise VerificationError(
                f"Staging {load.staging} holds other rows on {node} than on {publisher}, its replica: {each.rows} and "
                f"{staged[publisher].rows} of {load.request.month}. Nothing was published."
            )
