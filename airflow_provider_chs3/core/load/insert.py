"""Steps 6 and 7 of a load: insert exactly the manifest's objects, and verify it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.files.loaded_columns import DOES_NOT_FIT, FileGroup
from airflow_provider_chs3.core.files.parse_errors import file_of
from airflow_provider_chs3.core.files.source import Batch
from airflow_provider_chs3.core.load.failed_insert import explain_conversion, explain_parsing
from airflow_provider_chs3.core.load.misfits import find_misfits
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Periods
from airflow_provider_chs3.core.load.publication import Staged, StagedPartition, staged_of
from airflow_provider_chs3.core.load.resume import DoneInsert, ResumableLoad, seconds_of
from airflow_provider_chs3.core.load.row_counts import rows_of_source
from airflow_provider_chs3.core.model.error_codes import is_of_servers
from airflow_provider_chs3.core.model.models import Manifest, Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.complete_answers import passed_on
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, one_of, table
from airflow_provider_chs3.core.sql.server_casts import is_integer
from airflow_provider_chs3.core.steps.operations import Insert, InsertStats, Log, QueryNodes, Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError, ObjectsChangedError, SourceError, VerificationError

#: The error code of `throwIf`.
_THROWN = 395
#: A record takes some milliseconds, which matter to short loads.
_RECORDED_FROM_SECONDS = 1
#: Errors that a value can cause: it cannot be parsed or cast, or is NULL.
_VALUE_ERRORS = frozenset(
    [*(6, 25, 26, 27, 28, 32, 36, 38, 41, 43, 53, 69, 70, 72, 117, 130, 131), *(321, 349, 376, _THROWN, 407, 441, 467)]
) | {632, 675, 676, 691}


def insert(
    load: PeriodLoad,
    *,
    record: Callable[[Sequence[DoneInsert], str], Steps[None]] | None = None,
    done: Sequence[DoneInsert] = (),
    explains: bool = True,
    name: str = "insert",
) -> Steps[tuple[DoneInsert, ...]]:
    """Insert the manifest's objects: every node writes its own rows, or the sharding key distributes them."""
    so_far = list(done)
    load = yield from _find_readers(load)
    left = load.planned.reading.batches(load.files)[len(done) :]
    for number, (group, batch) in enumerate(left, start=len(done) + 1):
        query_id = f"{load.attempt.name}_{name}{number}"
        if record:
            yield from record(so_far, query_id)
        step = insert_step(load, group, batch, query_id=query_id)
        stats = yield from _run_insert(load, step) if explains else step
        so_far.append(DoneInsert(query_id, stats))
    # The end of an insert of several periods takes a record for every period.
    from_seconds = _RECORDED_FROM_SECONDS * (10 if load.group else 1)
    if record and seconds_of(so_far) >= from_seconds and len(so_far) > len(done):
        yield from record(so_far, "")
    return tuple(so_far)


def await_insert(load: PeriodLoad, resumable: ResumableLoad) -> Steps[tuple[DoneInsert, ...]]:
    """Wait for the insert that an earlier process started, and return all finished inserts."""
    if not resumable.running:
        return resumable.done
    group, batch = load.planned.reading.batches(load.files)[len(resumable.done)]
    step = insert_step(load, group, batch, query_id=resumable.running)
    stats = yield from _run_insert(load, replace(step, is_started=True))
    return (*resumable.done, DoneInsert(resumable.running, stats))


def _run_insert(load: PeriodLoad, step: Insert) -> Steps[InsertStats]:
    try:
        return (yield from step)
    except ClickHouseServerError as error:
        yield from explain(load, error)
        raise


def explain(load: PeriodLoad, error: ClickHouseServerError) -> Steps[None]:
    """Raise a `SourceError` that names the value or file that made a read of the objects fail, if there is one."""
    if error.code not in _VALUE_ERRORS and (not file_of(error) or is_of_servers(error)):
        return
    try:
        explanation = yield from _find_explanation(load, error)
    except ClickHouseServerError:
        # Servers failed meanwhile: the file is not the cause.
        return
    if explanation:
        raise SourceError(explanation) from error


def _find_explanation(load: PeriodLoad, error: ClickHouseServerError) -> Steps[str | None]:
    reading = load.planned.reading
    # A single server must read all rows: several would share them, and only one would be asked.
    files = replace(load.files, source=load.files.source.read_by(()))
    try:
        sentence = yield from find_misfits(files, reading)
    except ClickHouseServerError as again:
        if is_of_servers(again):
            raise
        # The file or a user's expression is the likelier cause.
        sentence = None
        error = again if file_of(again) else error
    files = replace(files, settings={**files.settings, **load.planned.setting_values})
    sentence = sentence or (yield from explain_parsing(files, reading, error))
    return sentence or (yield from explain_conversion(files, reading))


@dataclass(frozen=True, slots=True)
class Verified:
    """The proof that staging holds the rows of the objects, which these inserts read."""

    done: Sequence[DoneInsert]
    rows: Mapping[Period, int]
    counted_by: str


def verify(
    load: PeriodLoad,
    done: Sequence[DoneInsert],
    periods: Periods,
    listed: Mapping[Period, Manifest],
    partitions: Mapping[Node, Mapping[str, StagedPartition]],
) -> Steps[Verified]:
    """Prove that staging holds exactly the rows of the objects, and assign them to their periods.

    An insert of several periods fails on rows outside the period of their file, so the total proves every period.
    """
    # Rows of periods that leave are staged, too.
    every = list(periods)
    periods.apply(lambda item: check_objects(item, listed[item.period]))
    known = {item.period_partitions.value for item in every}
    staged = {item.period: staged_of(item, partitions, known=known) for item in every}
    _check_replicas(load, partitions)
    rows = {item.period: _new_rows(item, staged[item.period]) for item in every}
    if not periods.items:
        return Verified(done, rows, "")
    source_rows, counted_by = yield from rows_of_source(load, done)
    if sum(rows.values()) != source_rows:
        # A second read may have seen other versions of the objects.
        listed = yield from list_again(load, periods)
        periods.apply(lambda item: check_objects(item, listed[item.period]))
        if load.group is None:
            periods.unwrap()
        raise VerificationError(
            f"{load.periods} must hold {source_rows} rows, but {sum(rows.values())} were staged. These rows were not "
            "published."
        )
    yield from _check_keys(load)
    _check_others(load, staged[every[0].period])
    periods.update(lambda item: replace(item, staged=staged[item.period]))
    return Verified(done, rows, counted_by)


def list_again(load: PeriodLoad, periods: Periods) -> Steps[Mapping[Period, Manifest]]:
    """List the objects of periods after the insert."""
    listed: Mapping[Period, Manifest]
    _, listed = yield from load.files.source.list_periods(list(periods.items))
    if added := sum(period.manifest.added_in(listed[period.period]) for period in periods):
        yield from Log(
            name=f"{quantity(added, 'object')} of {load.periods} arrived during the load: the next run loads them."
        )
    return listed


def _new_rows(period_load: PeriodLoad, staged: Mapping[Node, Staged]) -> int:
    """Count the new staged rows, also of other periods, on a single replica of every shard."""
    increment, nodes = period_load.increment, period_load.context.publishers
    attached = sum(increment.attached_on(node) for node in nodes) if increment else 0
    return sum(staged[node].rows + sum(staged[node].other_rows.values()) for node in nodes) - attached


def _check_replicas(load: PeriodLoad, partitions: Mapping[Node, Mapping[str, StagedPartition]]) -> None:
    """Check that publishing replicas have staged the same rows as the other replicas of their shard."""
    publishers = {node.shard_num: node for node in load.context.publishers}
    for node in partitions:
        publisher = publishers[node.shard_num]
        rows, wanted = (
            {key: partition.contents.rows for key, partition in partitions[replica].items()}
            for replica in (node, publisher)
        )
        if rows != wanted:
            raise VerificationError(
                f"Staging {load.staging} holds other rows on {node} than on {publisher}, its replica: "
                f"{sum(rows.values())} and {sum(wanted.values())} of {load.periods}. These rows were not published."
            )


def _check_others(load: PeriodLoad, staged: Mapping[Node, Staged]) -> None:
    """Check that no row belongs to another period, unless such rows are left out."""
    others: Counter[str] = Counter()
    for node in load.context.publishers:
        others.update(staged[node].other_rows)
    if not others or (load.group is None and load.policies.on_other_periods != "fail"):
        return
    counts = ", ".join(f"{partition}: {count}" for partition, count in sorted(others.items()))
    if load.group:
        raise VerificationError(
            f"Staging {load.staging} has rows of other periods ({counts}): somebody else writes to it. Nothing was "
            "published."
        )
    source = load.files.source
    raise source.kind.contents.of_other_periods(load.period, source.place, counts)


def check_objects(load: PeriodLoad, listed: Manifest, *, cause: Exception | None = None) -> None:
    """Check that the listed objects are unchanged; later ones are left to the next run."""
    if changes := load.manifest.changes_in(listed):
        raise ObjectsChangedError(
            f"Objects of {load.period} changed while they were loaded: {changes}. The period was not published."
        ) from cause


def _find_readers(load: PeriodLoad) -> Steps[PeriodLoad]:
    """Return the load with a source that knows the servers of every shard, if it needs them."""
    source = load.files.source
    if not source.server_identity or not load.context.cluster:
        return load
    sql = Sql(f"SELECT {source.server_identity}")
    answers = yield from load.context.on_each(name="Ask nodes for their identity", sql=sql)
    servers = defaultdict[int, list[str]](list)
    for node, rows in answers.items():
        servers[node.shard_num].append(rows[0][0])
    shards = [servers[shard] for shard in sorted(servers)]
    return replace(load, files=replace(load.files, source=source.read_by(shards)))


def _check_keys(load: PeriodLoad) -> Steps[None]:
    """Check that the keys in staging add up to the source's sum, if there is one: it shows rows in place of others."""
    source = load.files.source
    if not load.manifest.objects or (checksum := source.checksum_of(load.manifest)) is None:
        return
    source_column = identifier(checksum.column)
    loaded = (loaded.column for loaded in load.planned.reading.loaded if loaded.source == source_column)
    column = next((column for column in loaded if is_integer(ColumnType(column.type).bare)), None)
    if column is None:
        return
    sql = Sql(f"SELECT toString(sum(toInt256({identifier(column.name)}))) FROM {table(load.staging)}")
    answers = yield from QueryNodes(name="Add up the keys", sql=dict.fromkeys(load.context.publishers, sql))
    # A node may have only rows without keys, which add up to NULL.
    staged = sum(int(rows[0][0] or 0) for rows in answers.values())
    if staged != checksum.total:
        raise VerificationError(
            f"The values of {column.name!r} of {load.period} add up to {checksum.total} in {source.place}, but "
            f"to {staged} in staging. The period was not published."
        )


OF_ANOTHER_PERIOD = "a row belongs to another period than its file"
#: An alias for the condition on the files of the period. No column of a file has this name.
_OF_PERIOD = "`chs3: of the period`"


def insert_step(load: PeriodLoad, group: FileGroup, batch: Batch, *, query_id: str) -> Insert:
    """Return the step that inserts a batch of objects."""
    plan = load.planned
    names = ", ".join(identifier(loaded_column.column.name) for loaded_column in group.loaded)
    values = [loaded_column.cast.value for loaded_column in group.loaded]
    sql = select_objects(load, group, batch, values).between(f"INSERT INTO {_render_target(load)} ({names}) ")
    what = load.files.source.kind.contents.inserted(len(batch.paths))
    return Insert(
        name=f"Insert {what} of {load.periods}",
        sql=passed_on(sql, {**load.files.neutral, **load.files.settings, **plan.setting_values}),
        settings={**load.context.permissions, **plan.setting_values},
        query_id=query_id,
        attempt=load.attempt.nonce,
        cluster=load.context.cluster,
        total_rows=plan.reading.rows,
        paths=batch.paths,
        bytes_event=load.files.source.kind.bytes_event,
    )


def select_objects(load: PeriodLoad, group: FileGroup, batch: Batch, values: Sequence[str]) -> Sql:
    """Return the SELECT over a batch of objects that fails if their insert would."""
    return load.files.source.select(
        values,
        function=load.files.read(batch.glob, structure=group.structure),
        condition=_render_condition(load, group, batch),
        cluster=load.context.cluster,
    )


def _render_condition(load: PeriodLoad, group: FileGroup, batch: Batch) -> str:
    """Render the condition that keeps the period's rows, and fails on values that differ from the file's.

    If several periods are loaded together, it also fails on rows outside the period of their file: row counts would
    not detect two files that swapped rows.
    """
    rows = load.files.source.rows_of(batch)
    if load.spread and (only := load.spread.only):
        rows += f" AND {one_of(only.value_in(group), only.values)}"
    held = [held for loaded_column in group.loaded if (held := loaded_column.holds)]
    thrown = [(" AND ".join(held), DOES_NOT_FIT)] if held else []
    if load.group:
        thrown.append((load.group.is_of_period, OF_ANOTHER_PERIOD))
    checks = [f"NOT throwIf({_OF_PERIOD} AND NOT ifNull({must}, 0), {literal(text)})" for must, text in thrown]
    return " AND ".join([f"({rows} AS {_OF_PERIOD})", *checks]) if checks else rows


def _render_target(load: PeriodLoad) -> str:
    """Render the target: `cluster(…)`, because an insert by the table's name writes only on the first node."""
    context, into = load.context, load.staging
    if not context.cluster:
        return table(into)
    arguments = [literal(context.cluster), identifier(into.database), identifier(into.table)]
    if load.policies.distribution == "sharding_key" and context.sharding_key:
        # The server itself wrote this key in the definition of the Distributed table.
        arguments.append(context.sharding_key)
    return f"FUNCTION cluster({', '.join(arguments)})"
