"""Prove that a table holds the rows of objects, whoever wrote them: read both, and compare. Nothing is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from airflow_provider_chs3.core.files.file_schema import read_columns, without_rows
from airflow_provider_chs3.core.files.file_set import Reading
from airflow_provider_chs3.core.files.loaded_columns import FileGroup, LoadedColumn, Selection
from airflow_provider_chs3.core.files.source import Batch
from airflow_provider_chs3.core.ledger.partition_changes import is_explained
from airflow_provider_chs3.core.ledger.queries import look_up_periods
from airflow_provider_chs3.core.ledger.recording import Structure
from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.load.discovery import list_ready
from airflow_provider_chs3.core.load.insert import explain, select_objects
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.load.period_load import InsertPlan, PeriodLoad
from airflow_provider_chs3.core.load.planning import TableHistory, plan_insert
from airflow_provider_chs3.core.load.recorded_load import as_recorded, is_known, knowing_settings_of, structures_of
from airflow_provider_chs3.core.load.row_counts import prove_whole
from airflow_provider_chs3.core.model.models import Manifest, Node
from airflow_provider_chs3.core.model.period import WHOLE_TABLE
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.periods.digests import (
    NO_ROWS,
    Digest,
    ObjectFinding,
    check_object_column,
    digest_columns,
    findings_by_column,
    findings_by_difference,
    has_digest,
)
from airflow_provider_chs3.core.periods.periods_to_prove import periods_to_prove
from airflow_provider_chs3.core.periods.proved_period import DIFFERS, EQUAL, REFUSED, AsOf, ProvedPeriod
from airflow_provider_chs3.core.periods.table_digests import digest_table, find_absent
from airflow_provider_chs3.core.sql.complete_answers import passed_on
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.core.steps.fan_out import capturing_logs
from airflow_provider_chs3.core.steps.operations import Log, Query, Row, Steps
from airflow_provider_chs3.core.target.node_capacity import ask_nodes_now
from airflow_provider_chs3.core.target.node_facts import Target, inspect_target
from airflow_provider_chs3.core.target.partition_key import is_of_period, parts_of_key, time_of_key
from airflow_provider_chs3.core.target.period_partitions import partitions_of
from airflow_provider_chs3.core.target.privileges import OF_A_PERIOD, check_all_seen
from airflow_provider_chs3.core.target.table_facts import Column
from airflow_provider_chs3.core.target.target_checks import check_target
from airflow_provider_chs3.core.tuning.insert_settings import names_to_look_up
from airflow_provider_chs3.exceptions import (
    ClickHouseServerError,
    ConfigurationError,
    NotReadyError,
    ObjectsChangedError,
    SourceError,
    TargetChangedError,
)

#: The expression that groups the rows of objects, by how they are read.
KeyOfRows = Callable[[FileGroup, Batch], str]
#: Errors of one period that do not concern the others.
REFUSALS = (NotReadyError, ObjectsChangedError, SourceError, TargetChangedError)
#: Objects that a text names: more would hide the first.
_MOST_SHOWN = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class ProofOptions:
    """Options of a proof: how periods are compared."""

    #: The column that says which object a row came from: its path, key or name; None if there is none.
    object_column: str | None = None
    #: The most objects of a period to read, spread over all of them; None reads all.
    sample: int | None = None
    #: Whether files must have all columns that a load would take from them. Otherwise columns that no file has are left
    #: out.
    needs_all_columns: bool = False
    #: Whether to compare the table's periods that have no objects, too, as far as its key or a ledger tells them.
    all_periods: bool = False
    #: Whether to read the objects of each period as the ledger records that its load did.
    is_as_recorded: bool = False
    #: Whether to name objects of which a period that has too few rows lacks one, too.
    names_incomplete: bool = False

    def __post_init__(self) -> None:
        if self.sample is not None and not self.object_column:
            raise ConfigurationError(
                "A sample reads some of the objects, and no column says which rows of the table are theirs: set "
                "object_column, or compare all."
            )


def prove_periods(requests: Sequence[LoadRequest], options: ProofOptions) -> Steps[list[ProvedPeriod]]:
    """Compare periods one by one; one that cannot be compared does not stop the others."""
    if not requests:
        return []
    first = requests[0]
    if not first.source.has_files:
        raise ConfigurationError(f"{first.source.place} has no files: only rows of files are compared.")
    context = yield from _inspect(first, options)
    requests, not_loaded = yield from periods_to_prove(context, requests, all_periods=options.all_periods)
    if not requests:
        return [*not_loaded]
    owns = yield from partitions_of(context, sorted(request.period for request in requests))
    published = (yield from look_up_periods(context, owns)) if options.is_as_recorded else {}
    recorded = {period: structures_of(nodes) for period, nodes in published.items()}
    requests = [as_recorded(request, recorded.get(request.period, ()), context) for request in requests]
    context = yield from knowing_settings_of(requests, context)
    listed = yield from list_ready(requests[0], [request.period for request in requests])
    proved = list[ProvedPeriod]()
    sizes = {period: _sampled(of, options.sample).size_bytes for period, of in listed.manifests.items()}
    progress = partial(Log, total=sum(sizes.values()), unit="bytes")
    yield from progress(name=f"Comparing {quantity(len(requests), 'period')}.")
    for request in requests:
        period = request.period
        try:
            if period in listed.failed:
                raise listed.failed[period]
            source, partitions, manifest = listed.source, owns[period], listed.manifests[period]
            load = PeriodLoad.of(request, context, source=source, manifest=manifest, period_partitions=partitions)
            proved_period = yield from prove_period(load, options)
            proved_period = _limit_to_recorded(proved_period, request, recorded.get(period))
        except REFUSALS as error:
            proved_period = ProvedPeriod(period=period, status=REFUSED, reason=str(error))
        proved.append(proved_period)
        done_bytes = sum(sizes.get(done.period, 0) for done in proved)
        yield from progress(name=f"{proved_period}.".replace("..", "."), done=done_bytes)
    return [*proved, *not_loaded]


def _inspect(request: LoadRequest, options: ProofOptions) -> Steps[Target]:
    names = names_to_look_up(request.settings, request.source.kind)
    context = yield from inspect_target(request, settings=names, policies_on=OF_A_PERIOD)
    check_target(context, settings=request.settings)
    if options.object_column:
        check_object_column(options.object_column, context.target, context.table_facts.columns)
    yield from check_all_seen(context.nodes, context.target)
    return context


def _limit_to_recorded(
    proof: ProvedPeriod, request: LoadRequest, structures: Sequence[Structure] | None
) -> ProvedPeriod:
    """Say by which arguments a period was compared, and claim no difference where a load had others, not known."""
    if structures is None:
        return replace(proof, definition=request.defined)
    if is_known(structures):
        names = ", ".join(request.defined)
        reason = f"{proof.reason}; compared by the {names} of its load, as recorded" if names else proof.reason
        return replace(proof, reason=reason, definition=request.defined)
    if not structures or proof.status != DIFFERS:
        return proof
    reason = (
        f"cannot tell: as a load without arguments reads the objects, {proof.reason}, and the ledger does not say "
        "which arguments its load had. Name the load: load=…, or --dag or --loads in the shell"
    )
    return replace(proof, status=REFUSED, reason=reason, columns=(), objects=(), as_of=None)


def prove_period(load: PeriodLoad, options: ProofOptions) -> Steps[ProvedPeriod]:
    """Compare the rows that a load would write with those of the table."""
    before = yield from load.look_up(with_records=False)
    load = load.with_objects(_sampled(load.files.manifest, options.sample))
    read = yield from read_objects(load, options, (yield from _is_of_period(load)))
    in_objects = {path: of_object.get(1, NO_ROWS) for path, of_object in read.digests.items()}
    other_rows = sum(of_object.get(0, NO_ROWS).rows for of_object in read.digests.values())
    proof = yield from compare_period(load, before, read, in_objects, options)
    added = yield from check_objects(load)
    yield from check_table(load, before)
    said = [proof.reason]
    # Of arrivals, it is no news that they have rows of other periods.
    if other_rows and not load.policies.is_by_arrival:
        said.append(f"{quantity(other_rows, 'row')} of its objects belong to other periods")
    if added and options.sample is None:
        said.append(f"not compared: {quantity(added, 'object')} that came meanwhile")
    return replace(proof, reason="; ".join(said), other_rows=other_rows)


@dataclass(frozen=True, slots=True)
class ReadObjects:
    """The rows of objects."""

    #: The columns whose values can be compared.
    compared: Sequence[Column]
    #: Why not, for each other column that the table stores.
    left_out: Mapping[str, str]
    plan: InsertPlan
    #: Path → key of rows → their digest.
    digests: Mapping[str, Mapping[Any, Digest]]


def read_objects(load: PeriodLoad, options: ProofOptions, key: KeyOfRows) -> Steps[ReadObjects]:
    """Read objects once, as an insert does; see `prove_period`."""
    try:
        reading = yield from _read_files(load, options)
        compared, left_out = _compared(load, reading)
        states = yield from ask_nodes_now(load.context, load.period_partitions.parts)
        plan = yield from capturing_logs(plan_insert(load, states, reading, TableHistory()), [])
        digests = yield from _digest_objects(load, plan, compared, key)
    except (ClickHouseServerError, SourceError):
        yield from check_objects(load)
        raise
    return ReadObjects(compared, left_out, plan, digests)


def compare_period(
    load: PeriodLoad,
    before: Mapping[Node, PeriodOnNode],
    read: ReadObjects,
    in_objects: Mapping[str, Digest],
    options: ProofOptions,
) -> Steps[ProvedPeriod]:
    """Compare the rows that a period's objects have for it with those of the table."""
    is_sample = options.sample is not None
    in_table = yield from digest_table(load, before, read.compared, options.object_column, is_sample=is_sample)
    held, wanted = Digest.total(in_table.values()), Digest.total(in_objects.values())
    # The objects by which the period differs, as far as rows tell.
    if options.object_column:
        findings = findings_by_column(in_table, in_objects, has_all=not is_sample)
    else:
        findings = findings_by_difference(held.without(wanted), in_objects)
    if not (findings or options.object_column) and options.names_incomplete and held.rows < wanted.rows:
        findings = [
            ObjectFinding(path=path, status="incomplete", source_rows=in_objects[path].rows, rows=None)
            for path in (yield from find_absent(load, before, read.compared, in_objects))
        ]
    sample = f" of {quantity(len(in_objects), 'object')} in a sample" if is_sample else ""
    return replace(
        _judged(load, held, wanted, findings, [column.name for column in read.compared], sample),
        left_out=dict(read.left_out),
        compared_objects=len(load.files.manifest.objects),
        as_of=AsOf.of(load.context.target, before),
    )


def _sampled(manifest: Manifest, most: int | None) -> Manifest:
    objects = manifest.objects
    if most is None or len(objects) <= most:
        return manifest
    return Manifest(tuple(objects[number * len(objects) // most] for number in range(most)))


def _read_files(load: PeriodLoad, options: ProofOptions) -> Steps[Reading]:
    if not load.files.manifest.objects:
        return Reading((), rows=0)
    yield from prove_whole(load)
    columns, selection = load.context.table_facts.columns, load.request.selection
    if not (options.needs_all_columns or selection.columns or selection.select):
        # As if they all had a default, which is what may be missing from all files.
        columns = tuple(replace(column, default_kind=column.default_kind or "DEFAULT") for column in columns)
    return (yield from read_columns(load.files, selection, columns))


def _compared(load: PeriodLoad, reading: Reading) -> tuple[list[Column], dict[str, str]]:
    """Return the columns whose values can be compared, and of all others that the table stores, why they cannot."""
    loaded = {loaded_column.column.name: loaded_column for loaded_column in reading.loaded}
    compared, left_out = list[Column](), dict[str, str]()
    for column in load.context.table_facts.stored:
        reason = _explain_not_compared(
            column, loaded.get(column.name), load.request.selection, has_objects=bool(reading.groups)
        )
        if reason:
            left_out[column.name] = reason
        else:
            compared.append(column)
    return compared, left_out


def _explain_not_compared(
    column: Column, loaded: LoadedColumn | None, selection: Selection, *, has_objects: bool
) -> str:
    if column.default_kind == "MATERIALIZED":
        return "the table computes it"
    if column.name not in (selection.columns or selection.select or [column.name]):
        return "the load leaves it out"
    if not has_digest(column.type):
        return f"it is {column.type}"
    if loaded is None:
        return "no file has it" if has_objects else ""
    if loaded.depends_on:
        return f"its expression calls {loaded.depends_on}"
    if selection.null_as_default and column.default_expression:
        return "NULL becomes its default"
    return ""


def _digest_objects(
    load: PeriodLoad, plan: InsertPlan, compared: Sequence[Column], key: KeyOfRows
) -> Steps[dict[str, dict[Any, Digest]]]:
    """Return the digests of the rows of each object, by their key."""
    files, by_path = load.files, dict[str, dict[Any, Digest]]()
    if files.manifest.objects:
        yield from Log(name=f"Reading {files.manifest.sizes} of {load.period}.")
    for group, batch in plan.reading.batches(files):
        answer = Digest.by_key((yield from _read_batch(load, plan, group, batch, compared, key)))
        found = defaultdict[str, dict[Any, Digest]](dict)
        for (path, of_rows), digest in answer.items():
            found[path][of_rows] = digest
        nothing = yield from without_rows(files, batch, found.keys())
        by_path |= {path: found[path] for path in batch.paths if path in nothing or path in found}
    files.check_found(by_path)
    rows = {path: sum(digest.rows for digest in of_object.values()) for path, of_object in by_path.items()}
    for unit, in_footer in zip(files.manifest.objects, plan.reading.file_rows or (), strict=False):
        if (read := rows[unit.path]) != in_footer:
            raise SourceError(
                f"{unit.path} holds {in_footer:,} rows by its footer, but {read:,} were read of it. Try again."
            )
    for path, read in rows.items():
        recorded = files.source.recorded_rows(path)
        if recorded not in (None, read):
            raise SourceError(
                f"{path} has {read:,} rows, but the periods that are recorded to have rows of it got {recorded:,}: "
                "load its arrival again, with a reload."
            )
    return by_path


def _read_batch(
    load: PeriodLoad, plan: InsertPlan, group: FileGroup, batch: Batch, compared: Sequence[Column], key: KeyOfRows
) -> Steps[list[Row]]:
    loaded = {column.column.name: column for column in group.loaded}
    values = [(_stored(loaded[column.name].plain), column.type) for column in compared]
    # Under a name that no column has: a file's column would see it in its own place.
    of_rows = f"({batch.path}, {key(group, batch)}) AS `chs3: object`"
    sql = select_objects(load, group, batch, [of_rows, digest_columns(values)]).between("", " GROUP BY `chs3: object`")
    settings = {**load.files.neutral, **load.files.settings, **plan.setting_values}
    name = f"Read {load.files.source.kind.contents.inserted(len(batch.paths))} of {load.period}"
    try:
        query = Query(
            name=name,
            sql=passed_on(sql, settings),
            settings={**load.context.permissions, **plan.setting_values},
        )
        return (yield from query)
    except ClickHouseServerError as error:
        yield from explain(replace(load, plan=plan), error)
        raise


def _is_of_period(load: PeriodLoad) -> Steps[KeyOfRows]:
    """Return what says if a row belongs to the period's partitions: 1 or 0; 1 if the key has no part of time."""
    of_time = time_of_key(load.context)
    if of_time is None or load.period == WHOLE_TABLE:
        return lambda group, batch: "1"
    key = yield from parts_of_key(load.context, of_time)

    def is_own(group: FileGroup, batch: Batch) -> str:
        column = next((column for column in group.loaded if column.column.name == of_time.column.name), None)
        if column is None:
            return "1"
        values = dict.fromkeys(batch.paths, load.period_partitions.value)
        condition = is_of_period(of_time.column, key, _stored(column), values, batch.path)
        return f"toUInt8(ifNull({condition}, 0))"

    return is_own


def _stored(loaded: LoadedColumn) -> str:
    """Return the expression for what the table stores of a column."""
    value, of = loaded.cast.value, loaded.column.type
    if loaded.null_as_default:
        value = f"ifNull({value}, defaultValueOfTypeName({literal(of)}))"
    return f"CAST({value}, {literal(of)})"


def check_objects(load: PeriodLoad) -> Steps[int]:
    """Check that objects are as they were listed, and return the number of those that came since."""
    read, source = load.files.manifest, load.files.source
    if load.spread:
        listed = Manifest.of((yield from source.list_again({unit.path for unit in read.objects})).values())
    else:
        _, listed = yield from source.list_period(load.period)
    if changes := read.changes_in(listed):
        of = "" if load.spread else f" of {load.period}"
        raise ObjectsChangedError(f"Objects{of} changed while they were compared: {changes}. Try again.")
    return read.added_in(listed)


def check_table(load: PeriodLoad, before: Mapping[Node, PeriodOnNode]) -> Steps[None]:
    """Check that nobody has written to a period since a look at it."""
    for node, on_node in (yield from load.look_up(with_records=False)).items():
        if not is_as_before(before[node], on_node, load):
            raise TargetChangedError(
                f"Somebody wrote to {load.context.target} on {node} while {load.period} was compared: try again."
            )


def is_as_before(before: PeriodOnNode, after: PeriodOnNode, load: PeriodLoad) -> bool:
    """Check whether a period has the parts that it had, or merges of them."""
    pairs = [
        (before.at(key).state, after.at(key).state)
        for key in {partition.partition_id for partition in (*before.each, *after.each)}
    ]
    return all(
        was == state or is_explained(was.evidence(), state, table_facts=load.context.table_facts)
        for was, state in pairs
    )


def _judged(
    load: PeriodLoad, held: Digest, wanted: Digest, findings: Sequence[ObjectFinding], names: Sequence[str], sample: str
) -> ProvedPeriod:
    proved = partial(ProvedPeriod, period=load.period, rows=held.rows, source_rows=wanted.rows)
    if held.is_of(wanted) and not findings:
        return proved(status=EQUAL, reason=f"{quantity(held.rows, 'row')}{sample}")
    columns = held.columns_unlike(wanted, names) if held.rows == wanted.rows and held.rows else ()
    reason = _describe_difference(held, wanted, columns, findings)
    facts = load.context.table_facts
    if held.rows < wanted.rows and not facts.keeps_every_row:
        reason += f". A {facts.engine}{' with a TTL' if facts.rows_expire else ''} may have removed rows itself"
    return proved(status=DIFFERS, reason=reason, columns=columns, objects=tuple(findings))


def _describe_difference(
    held: Digest, wanted: Digest, columns: Sequence[str], findings: Sequence[ObjectFinding]
) -> str:
    said = list[str]()
    if more := held.rows - wanted.rows:
        said.append(f"{quantity(abs(more), 'row')} {'more' if more > 0 else 'fewer'} than the objects")
    elif columns:
        said.append(f"other values in {', '.join(columns)}")
    elif not held.is_of(wanted):
        said.append("each column has the objects' values, but in other rows")
    said += [f"{finding.path} is {finding.status}" for finding in findings[:_MOST_SHOWN]]
    if len(findings) > _MOST_SHOWN:
        said.append(f"and {len(findings) - _MOST_SHOWN} more objects")
    return "; ".join(said)
