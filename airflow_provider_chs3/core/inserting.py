"""Steps 5 and 6 of a load: insert exactly the manifest's objects, and prove it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.answers import passed_on
from airflow_provider_chs3.core.insert_plan import InsertPlan
from airflow_provider_chs3.core.load import Load
from airflow_provider_chs3.core.models import Node, TableName
from airflow_provider_chs3.core.replication import follow
from airflow_provider_chs3.core.source_rows import rows_of_source
from airflow_provider_chs3.core.source_schema import find_misfits, insert_parts
from airflow_provider_chs3.core.sources import Batch
from airflow_provider_chs3.core.sql import Sql, identifier, literal, table
from airflow_provider_chs3.core.steps import Insert, InsertStats, Say, Steps, Together
from airflow_provider_chs3.core.underway import Beginning, DoneInsert, Underway, record_underway
from airflow_provider_chs3.exceptions import ClickHouseServerError, ObjectsChangedError, SourceError, VerificationError

#: Errors that a value can cause: it cannot be parsed, cast, or be NULL.
_VALUE_ERRORS = frozenset({6, 27, 38, 41, 69, 70, 72, 117, 131, 321, 349, 376, 407, 467, 632, 691})


@dataclass(frozen=True, slots=True)
class Inserted:
    """What the inserts of one load did together.

    Args:
        done: Each of them.
    """

    done: tuple[DoneInsert, ...]

    @property
    def stats(self) -> InsertStats:
        """Seconds and rows read of all, and the highest peak of memory."""
        every = [each.stats for each in self.done]
        peaks = [each.peak_memory_bytes for each in every if each.peak_memory_bytes is not None]
        return InsertStats(
            seconds=sum(each.seconds for each in every),
            read_rows=sum(each.read_rows for each in every),
            peak_memory_bytes=max(peaks, default=None),
        )

    @property
    def query_ids(self) -> tuple[str, ...]:
        """One for each insert."""
        return tuple(each.query_id for each in self.done)


def insert(
    load: Load,
    plan: InsertPlan,
    *,
    into: TableName,
    beginning: Beginning | None = None,
    done: Sequence[DoneInsert] = (),
) -> Steps[Inserted]:
    """Insert the manifest's objects, every node writing what it reads, or what the sharding key gives it.

    Args:
        load: The load.
        plan: What is inserted.
        into: The table on every node.
        beginning: Recorded before each insert, so that another process can go on; None does not.
        done: The first inserts, which an earlier process has seen to end.

    Raises:
        SourceError: If a value does not fit; it names column, file and value.
    """
    so_far = list(done)
    for number, batch in enumerate(load.files.batches(), start=1):
        if number <= len(done):
            continue
        query_id = f"{load.attempt.name}_insert{number}"
        if beginning:
            yield from record_underway(load, plan, beginning, done=so_far, running=query_id)
        step = insert_step(load, plan, batch, into=into, query_id=query_id)
        so_far.append(DoneInsert(query_id, (yield from _run(load, plan, step))))
    return Inserted(tuple(so_far))


def await_insert(load: Load, plan: InsertPlan, underway: Underway) -> Steps[tuple[DoneInsert, ...]]:
    """See the insert that an earlier process started to its end.

    Args:
        load: The load, under the nonce of that attempt.
        plan: What is inserted.
        underway: What is recorded of it.

    Returns:
        All inserts that have ended.

    Raises:
        SourceError: As `insert` does.
        ClickHouseServerError: What the insert ended with.
    """
    if not underway.running:
        return underway.done
    batch = load.files.batches()[len(underway.done)]
    step = insert_step(load, plan, batch, into=load.staging, query_id=underway.running)
    stats = yield from _run(load, plan, replace(step, is_started=True))
    return (*underway.done, DoneInsert(underway.running, stats))


def insert_step(load: Load, plan: InsertPlan, batch: Batch, *, into: TableName, query_id: str) -> Insert:
    """The insert of some objects.

    Args:
        load: The load.
        plan: What is inserted, and how.
        batch: The objects.
        into: The table on every node.
        query_id: The insert's.
    """
    names, expressions = insert_parts(plan.loaded, null_as_default=load.request.selection.null_as_default)
    function = load.files.read(batch.glob, structure=plan.schema.structure)
    to = _written(load, into)
    text = f"INSERT INTO {to} ({names}) SELECT {expressions} FROM {function.text} WHERE {batch.condition}"
    return Insert(
        name=f"Insert {len(batch.paths)} objects of {load.request.month}",
        sql=passed_on(Sql(text, function.secrets), {**load.files.neutral, **plan.setting_values}),
        settings=plan.setting_values,
        query_id=query_id,
        attempt=load.request.nonce,
        cluster=load.around.cluster,
        total_rows=plan.schema.rows,
        paths=batch.paths,
    )


def _run(load: Load, plan: InsertPlan, step: Insert) -> Steps[InsertStats]:
    try:
        stats: InsertStats = yield step
        return stats
    except ClickHouseServerError as error:
        if error.code in _VALUE_ERRORS:
            yield from _explain(load, plan, error)
        raise


def _written(load: Load, into: TableName) -> str:
    """What to insert into: `cluster(…)`, as an insert into a table by its name writes on the first node alone."""
    around = load.around
    if not around.cluster:
        return table(into)
    arguments = [literal(around.cluster), identifier(into.database), identifier(into.table)]
    if load.request.policies.distribution == "sharding_key" and around.sharding_key:
        # As the server itself wrote it in the Distributed table's definition.
        arguments.append(around.sharding_key)
    return f"FUNCTION cluster({', '.join(arguments)})"


def _explain(load: Load, plan: InsertPlan, error: ClickHouseServerError) -> Steps[None]:
    try:
        null_as_default = load.request.selection.null_as_default
        found = yield from find_misfits(load.files, plan.schema, plan.loaded, null_as_default=null_as_default)
    except ClickHouseServerError:
        # The files cannot be read for the explanation either: the first error says why.
        return
    if found:
        raise SourceError(found) from error


@dataclass(frozen=True, slots=True)
class Staged:
    """What is staged on one node.

    Args:
        rows: Rows of the month.
        other_rows: Rows of other months, by partition.
    """

    rows: int
    other_rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Verified:
    """What is staged, and how it is known to be the objects' rows.

    Args:
        staged: What is staged on each node.
        counted_by: What told how many rows the objects hold; see `core.source_rows`.
    """

    staged: Mapping[Node, Staged]
    counted_by: str


def verify(load: Load, plan: InsertPlan, inserted: Inserted) -> Steps[Verified]:
    """Prove that staging holds exactly the rows of the manifest's objects.

    Args:
        load: The load.
        plan: What was inserted.
        inserted: What the inserts did.

    Raises:
        ObjectsChangedError: If objects changed since they were listed.
        VerificationError: If rows are missing or too many.
        SourceError: If rows belong to other months and that is an error.
    """
    month, source = load.request.month, load.files.source
    looks = (source.list_month(month), _staged(load))
    staged: dict[Node, Staged]
    (_, now), staged = yield Together(name="List again, and count what is staged", workflows=looks)
    changes = load.files.manifest.changes_in(now)
    if changes:
        raise ObjectsChangedError(
            f"Objects of {month} changed while they were loaded: {changes}. Nothing was published."
        )
    if added := load.files.manifest.added_in(now):
        yield Say(name=f"{added} objects of {month} came while it was loaded: the next run loads them.")
    _check_replicas(load, staged)
    # A row counts once, however many replicas have it.
    once = {node: staged[node] for node in load.around.publishers}
    rows = {node: each.rows + sum(each.other_rows.values()) for node, each in once.items()}
    counted = yield from rows_of_source(load, plan.schema, inserted.done, staged_rows=sum(rows.values()))
    if sum(rows.values()) != counted.rows:
        per_node = ", ".join(f"{node}: {count}" for node, count in rows.items())
        raise VerificationError(
            f"The objects of {month} hold {counted.rows} rows, but {sum(rows.values())} were staged ({per_node}). "
            "Nothing was published."
        )
    others: Counter[str] = Counter()
    for each in once.values():
        others.update(each.other_rows)
    if others and load.request.policies.on_other_months == "fail":
        counts = ", ".join(f"{partition}: {count}" for partition, count in sorted(others.items()))
        raise SourceError(
            f"The objects of {month} hold rows of other months (partition: rows): {counts}. Nothing was published. "
            "on_other_months='leave_out' loads the month without them."
        )
    return Verified(staged, counted.counted_by)


def _check_replicas(load: Load, staged: Mapping[Node, Staged]) -> None:
    """What one replica publishes must be what the whole shard has staged."""
    publishers = {node.shard_num: node for node in load.around.publishers}
    for node, each in staged.items():
        publisher = publishers[node.shard_num]
        if each != staged[publisher]:
            raise VerificationError(
                f"Staging {load.staging} holds other rows on {node} than on {publisher}, its replica: {each.rows} and "
                f"{staged[publisher].rows} of {load.request.month}. Nothing was published."
            )


def _staged(load: Load) -> Steps[dict[Node, Staged]]:
    yield from follow(load.around, load.staging)
    sql = Sql(
        f"SELECT partition_id, sum(rows) FROM system.parts WHERE database = {literal(load.staging.database)} "
        f"AND table = {literal(load.staging.table)} AND active GROUP BY partition_id"
    )
    answers = yield load.around.on_each(name="Count what is staged", sql=sql)
    staged = {}
    for node, rows in answers.items():
        by_partition = dict(rows)
        staged[node] = Staged(by_partition.pop(load.key.partition_id, 0), by_partition)
    return staged
