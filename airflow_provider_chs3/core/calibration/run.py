"""Calibrate a table: load a sample of its files into throw-away tables under a few settings, and keep the best.

list → inspect → size the sample → try, in turns → choose → record on every node
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.attempt.discovery import inspect_target_for_load, list_ready_period
from airflow_provider_chs3.core.attempt.history import circumstances_of, record_profile
from airflow_provider_chs3.core.attempt.insert_plan import InsertPlan
from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.attempt.retry_policy import RetryState
from airflow_provider_chs3.core.attempt.warnings import nodes_without_room
from airflow_provider_chs3.core.calibration.report import Calibration, TrialRecord, trial_line
from airflow_provider_chs3.core.calibration.search import (
    FINAL_ROUNDS,
    Candidate,
    Choice,
    TrialResult,
    most_trials,
    search,
    themes,
)
from airflow_provider_chs3.core.calibration.trial import TrialAttempt, TrialContext, run_trial
from airflow_provider_chs3.core.cluster.node_capacity import NodeNow, ask_nodes_now, size_nodes
from airflow_provider_chs3.core.cluster.node_facts import inspect_target
from airflow_provider_chs3.core.files.file_schema import read_columns
from airflow_provider_chs3.core.ledger.table import make_ledger
from airflow_provider_chs3.core.preflight.replicas import find_replicas
from airflow_provider_chs3.core.preflight.target_checks import check_target, partitions_of_one
from airflow_provider_chs3.core.request.load_request import LoadRequest
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.staging.ending import end_attempts, end_earlier_attempts
from airflow_provider_chs3.core.tuning.calibrated_profile import BY_RULE, Knobs, Profile, short_version
from airflow_provider_chs3.core.tuning.exact_settings import DDL_SETTINGS, REQUIRED_SETTINGS
from airflow_provider_chs3.core.tuning.resource_share import smallest
from airflow_provider_chs3.core.values.models import Manifest, Node
from airflow_provider_chs3.core.values.quantities import quantity, size_text
from airflow_provider_chs3.core.workflow.operations import Log, ReadClock, Steps
from airflow_provider_chs3.exceptions import Chs3Error, ConfigurationError, NotReadyError, PreflightError

#: Size of the first sample's files per node: its duration shows how large the others may be.
_FIRST_BYTES = 64 * 1024**2
#: Minimum number of files per node in a sample, if the period has enough: each node has work, and some to spare.
_LEAST_FILES = 2
#: Number of trials that the budget should allow.
_USUAL_TRIALS = 40
#: Minimum number of trials: with fewer, there is nothing to compare.
_FEWEST_TRIALS = 2 * FINAL_ROUNDS + 4
#: Numbers of parallel periods to try, if there are enough cores.
_SIDE_BY_SIDE = (2, 4)


@dataclass(frozen=True, kw_only=True)
class CalibrationRequest:
    """A request to calibrate a table.

    Args:
        load: The request that would load the sample's period.
        budget_seconds: Time limit for the calibration.
        least_try_seconds: Minimum duration of a trial: shorter ones show nothing.

    Raises:
        ConfigurationError: If the source has no files.
    """

    load: LoadRequest
    budget_seconds: float
    least_try_seconds: float

    def __post_init__(self) -> None:
        if not self.load.source.has_files:
            raise ConfigurationError(
                f"A calibration loads samples of files, but {self.load.source.place} has no files."
            )


def calibrate(request: CalibrationRequest) -> Steps[Calibration]:
    """Find the settings that load the table's files the fastest, and record them for its loads.

    The target, its periods and their records in the ledger stay as they are.

    Raises:
        NotReadyError: If the period has no objects.
        PreflightError: If a check fails that would also stop a load.
        ConfigurationError: If the period has too little data, or the budget is too small.
    """
    began = yield from ReadClock(name="Read the clock")
    load = yield from _prepare(request.load)
    trial = TrialAttempt(load.context.target, (load.request.period,), load.request.nonce)
    yield from end_earlier_attempts(load.context, trial)
    now = yield from _check_nodes(load)
    versions = yield from _versions(load)
    try:
        bench = yield from _prepare_bench(load, now, began)
        bench = yield from _size_sample(bench, request)
        records, choice = yield from _search(bench, request)
    except Exception:
        yield from _clean_up(load, trial)
        raise
    yield from _clean_up(load, trial)
    ended = yield from ReadClock(name="Read the clock")
    calibration = _result(bench, versions, choice, records, ended)
    ledger = load.context.ledger
    yield from make_ledger(load.context, load.context.nodes)
    yield from record_profile(load, ledger, calibration.as_json())
    yield from Log(name=calibration.described())
    return calibration


def stop_calibration(request: LoadRequest) -> Steps[None]:
    """Cancel a running calibration: end its queries on every node, and drop its tables.

    Raises:
        TransientError: If a query does not end.
    """
    context = yield from inspect_target(request, settings=DDL_SETTINGS)
    yield from end_attempts(context, TrialAttempt(context.target, (request.period,), request.nonce))


def _prepare(request: LoadRequest) -> Steps[LoadContext]:
    source, manifest = yield from list_ready_period(request)
    context = yield from inspect_target_for_load(request)
    if not manifest.objects:
        where = f"{source.place}/{source.pattern}"
        raise NotReadyError(
            f"No objects for {request.period} under {where} to calibrate with: choose a period that has some."
        )
    check_target(context, required_settings=REQUIRED_SETTINGS, settings=request.settings)
    context = yield from find_replicas(context)
    own = yield from partitions_of_one(context, request.period)
    return LoadContext.of(request, context, RetryState(), source=source, manifest=manifest, own=own)


def _check_nodes(load: LoadContext) -> Steps[Mapping[Node, NodeNow]]:
    """Read the state of the nodes, after an earlier calibration was ended and its resources are free again."""
    now = yield from ask_nodes_now(load.context, load.own.parts)
    if findings := list(nodes_without_room(load, now)):
        raise PreflightError(*findings)
    return now


def _versions(load: LoadContext) -> Steps[dict[Node, str]]:
    answers = yield from load.context.on_each(name="Ask every node for its version", sql=Sql("SELECT version()"))
    return {node: rows[0][0] for node, rows in answers.items()}


def _prepare_bench(load: LoadContext, now: Mapping[Node, NodeNow], began: float) -> Steps[TrialContext]:
    """Prepare the context that all trials share, with a first sample."""
    request = load.request
    nodes = size_nodes(load.context, now, argument=request.node_specs, connection=request.connection_node_specs)
    manifest = sample_of(load.files.manifest, _FIRST_BYTES * len(nodes), nodes=len(nodes))
    first = load.of_objects(manifest)
    reading = yield from read_columns(first.files, request.selection, load.context.table_facts.columns)
    return TrialContext(
        load=first,
        now=now,
        nodes=nodes,
        reading=reading,
        whole=load.files.manifest,
        began=began,
    )


def sample_of(manifest: Manifest, size_bytes: float, *, nodes: int) -> Manifest:
    """Choose files of a period, evenly spread over all of them.

    Args:
        manifest: The period's files.
        size_bytes: Their approximate total size.
        nodes: Number of nodes that share them: each gets at least two, if there are enough.
    """
    every = manifest.objects
    needed = -(-int(len(every) * size_bytes) // max(1, manifest.size_bytes))
    count = min(len(every), max(needed, _LEAST_FILES * nodes))
    return Manifest.of(every[number * len(every) // count] for number in range(count))


def _size_sample(bench: TrialContext, request: CalibrationRequest) -> Steps[TrialContext]:
    """Find the sample size that fits the budget. The first trial also fills caches, so another one is measured."""
    result = yield from run_trial(bench, Candidate(label="the first sample"), number=0)
    goal_seconds = request.budget_seconds / _USUAL_TRIALS
    before = bench.load.files.manifest
    size_bytes = before.size_bytes * goal_seconds / max(result.seconds or 0.0, 0.001)
    manifest = sample_of(bench.whole, size_bytes, nodes=len(bench.nodes))
    if len(manifest.objects) > len(before.objects) or len(manifest.objects) < len(before.objects) / 2:
        load = bench.load.of_objects(manifest)
        reading = yield from read_columns(load.files, request.load.selection, load.context.table_facts.columns)
        bench = replace(bench, load=load, reading=reading)
    result = yield from run_trial(bench, Candidate(label="the sample"), number=1)
    seconds = result.seconds or 0.0
    files = bench.load.files.manifest
    period = request.load.period
    if seconds < request.least_try_seconds:
        raise ConfigurationError(
            f"A sample of {period}, {quantity(len(files.objects), 'object')}, loads in {seconds:.2f} s, which is too "
            f"short to compare settings (least_try_seconds={request.least_try_seconds:g}): choose a period with "
            "more data."
        )
    if result.at_seconds + _FEWEST_TRIALS * seconds > request.budget_seconds:
        raise ConfigurationError(
            f"The smallest sample of {period}, {quantity(len(files.objects), 'object')}, loads in {seconds:.1f} s, so "
            f"budget_seconds={request.budget_seconds:g} is too short for {_FEWEST_TRIALS} trials: give "
            f"{result.at_seconds + _USUAL_TRIALS * seconds:.0f}."
        )
    yield from Log(
        name=f"Sample: {len(files.objects)} of {quantity(len(bench.whole.objects), 'object')} of {period}, "
        f"{size_text(files.size_bytes)}; it loads in {seconds:.2f} s with the rules."
    )
    return bench


def _search(bench: TrialContext, request: CalibrationRequest) -> Steps[tuple[list[TrialRecord], Choice]]:
    one = bench.resource_share_of(1, 1)
    every = [
        {label: each for label, each in theme.items() if not bench.is_same(Knobs(**each), BY_RULE)}
        for theme in themes(one)
    ]
    numbers = [
        each
        for each in _SIDE_BY_SIDE
        if each <= max(2, one.node_cores // 2)
        and len(bench.load.files.manifest.objects) >= each * _LEAST_FILES * len(bench.nodes)
    ]
    most = most_trials(every, side_by_side=numbers)
    yield from Log(
        name=f"Run at most {most} trials within {request.budget_seconds:g} s; each may use {one.memory_bytes} "
        f"bytes of each node's memory{one.remarks}."
    )
    searching = search(
        every,
        budget_seconds=request.budget_seconds,
        is_same=bench.is_same,
        nodes=len(bench.nodes),
        side_by_side=numbers,
    )
    records: list[TrialRecord] = []
    result: TrialResult | None = None
    while True:
        try:
            candidate = searching.send(result)  # type: ignore[arg-type]  # None starts it
        except StopIteration as done:
            return records, done.value
        result = yield from run_trial(bench, candidate, number=len(records) + 2)
        records.append(TrialRecord(candidate, result))
        where = f"Trial {len(records)} of at most {most}, {result.at_seconds:.0f} of {request.budget_seconds:g} s"
        yield from Log(name=f"{where}: {trial_line(candidate, result)}")


def _clean_up(load: LoadContext, trial: TrialAttempt) -> Steps[None]:
    try:
        yield from end_attempts(load.context, trial)
    except Chs3Error as error:
        yield from Log(name=f"Could not drop the tables of the trials; the next calibration drops them. ({error})")


def _result(
    bench: TrialContext, versions: Mapping[Node, str], choice: Choice, records: list[TrialRecord], now: float
) -> Calibration:
    request, files = bench.load.request, bench.load.files
    spec = smallest(each.spec for each in bench.nodes.values())
    version = short_version(versions[bench.load.context.coordinator])
    profile = Profile(
        knobs=choice.knobs,
        parallel_loads=choice.parallel_loads,
        measured_on=circumstances_of(files, nodes=len(bench.nodes), spec=spec, version=version),
        at=f"{request.now:%Y-%m-%d}",
        seconds=choice.seconds,
        rule_seconds=choice.rule_seconds,
    )
    plan: InsertPlan = bench.plan(choice.knobs, profile=profile)
    return Calibration(
        target=bench.load.context.target,
        period=request.period,
        profile=profile,
        choice=choice,
        tries=tuple(records),
        settings=tuple(each for each in plan.settings if each.reason == profile.reason),
        memory_bytes=plan.memory_bytes,
        seconds=now - bench.began,
        objects=len(files.manifest.objects),
        of_objects=len(bench.whole.objects),
        source_bytes=files.manifest.size_bytes,
        specs={str(node): str(each) for node, each in bench.nodes.items()},
        versions={str(node): version for node, version in versions.items()},
    )
