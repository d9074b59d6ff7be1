"""The load of periods, written once: which share an attempt, and how they continue after its errors.

See docs/protocol.md for the reasons and the invariants.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from airflow_provider_chs3.core.files.parse_errors import file_of
from airflow_provider_chs3.core.files.table_creation import create_if_missing
from airflow_provider_chs3.core.load.attempt import Round, attempt
from airflow_provider_chs3.core.load.decision import LoadResult
from airflow_provider_chs3.core.load.discovery import inspect_target_for_load
from airflow_provider_chs3.core.load.insert import check_objects
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.load.outcome import record_failure
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.load.resume import find_resumable_loads
from airflow_provider_chs3.core.load.retry_policy import Retry, RetryState, next_retry
from airflow_provider_chs3.core.model.error_codes import QUERY_WAS_CANCELLED, is_terminal, sentence, with_hint
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.steps.driving import NO_STEPS, StepTimer, start_timer
from airflow_provider_chs3.core.steps.operations import Log, Sleep, Steps
from airflow_provider_chs3.exceptions import (
    Chs3Error,
    ClickHouseConnectionError,
    ClickHouseServerError,
    FilesDifferError,
    ObjectsChangedError,
    PeriodsFailedError,
    PeriodsNotLoadedError,
    PreflightError,
    ReplicasBehindError,
    SourceError,
    SupersededError,
)


def load_periods(request: LoadRequest, periods: Sequence[Period]) -> Steps[LoadsOutcome]:
    """Make each period's partition hold exactly the rows of that period's objects; return a result or an error of each.

    A single statement inserts several periods where possible. If a period fails, it leaves, the others are published,
    and it is loaded separately to report its own error; its target is unchanged, unless that says otherwise. A load
    starts over after transient errors, or errors that other settings avoid: changing objects, too little memory,
    overloaded servers (see `core.load.retry_policy`). If inserts outlive their process, the workflow resumes an insert
    of an earlier process of the task (see `core.load.resume`). Errors that all periods would meet are raised.
    """
    outcome, left, reload, target = LoadsOutcome(), list[Period](), request.reload, request.target
    for period in sorted(set(periods)):
        if reload and (period not in reload.periods or (yield from reload.leaves_out_table(target, request.cluster))):
            reason = f"this run reloads {reload}"
            outcome.results[period] = LoadResult(status="skipped", period=period, target=target, reason=reason)
        else:
            left.append(period)
    if left and request.new_table:
        yield from create_if_missing(request.new_table, left)
    rounds, numbers = deque((yield from first_rounds(request, left))), count()
    while rounds:
        load_round = rounds.popleft()
        yield from attempt(request, load_round, f"{request.nonce}{next(numbers) or ''}")
        outcome.results.update(load_round.results)
        further = yield from further_rounds(load_round, outcome)
        rounds.extendleft(reversed(further))
        if len(left) > len(load_round.periods):
            yield from _log_results(load_round, outcome)
        lost = next((error for error in outcome.errors.values() if isinstance(error, OF_ALL)), None)
        if lost:
            # Further rounds would wait for the same servers.
            outcome.errors.update({period: lost for next_round in rounds for period in next_round.periods})
            break
    return outcome


def _log_results(load_round: Round, outcome: LoadsOutcome) -> Steps[None]:
    for period in load_round.periods:
        if period in outcome.results:
            yield from Log(name=outcome.results[period].summary())
        elif period in outcome.errors:
            yield from Log(name=f"{period} failed: {outcome.errors[period]}")


#: Servers refuse an INSERT of more partitions (`max_partitions_per_insert_block`).
_MOST_PERIODS = 100
#: Errors that every period would meet again, after the same wait.
OF_ALL = (ClickHouseConnectionError, ReplicasBehindError)
#: How often a batch continues without periods with files that an error names.
_MOST_PARTINGS = 3
#: Most periods in an error: more would hide the first.
_MOST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class LoadsOutcome:
    """Results and errors of a load of periods."""

    results: dict[Period, LoadResult] = field(default_factory=dict)
    errors: dict[Period, Chs3Error] = field(default_factory=dict)

    @property
    def error(self) -> Chs3Error | None:
        """The error for all failed periods; None if none failed."""
        if not self.errors:
            return None
        if not self.results and len(self.errors) == 1:
            return next(iter(self.errors.values()))
        # Periods with the same error share a line.
        periods_by_text = defaultdict[str, list[Period]](list)
        for period, error in sorted(self.errors.items()):
            periods_by_text[with_hint(error, str(error))].append(period)
        lines = [f"{', '.join(map(str, periods))}: {text}" for text, periods in periods_by_text.items()]
        rest = [f"and {len(lines) - _MOST_SHOWN} more"] if len(lines) > _MOST_SHOWN else []
        failed = len(self.errors)
        others = "; the others are loaded" if self.results else ""
        text = f"{failed} of {quantity(failed + len(self.results), 'period')} failed{others}."
        kind = PeriodsFailedError if all(map(is_terminal, self.errors.values())) else PeriodsNotLoadedError
        return kind("\n  ".join([text, *lines[:_MOST_SHOWN], *rest]), self.errors.values())

    def unwrap(self) -> LoadResult:
        """Return the result of a load of a single period."""
        for error in self.errors.values():
            raise error
        (result,) = self.results.values()
        return result


def first_rounds(request: LoadRequest, periods: Sequence[Period]) -> Steps[list[Round]]:
    """Return the rounds that load periods; several share a round if a single insert may read them."""
    reason = _why_one_by_one(request)
    if reason and len(periods) > 1:
        yield from Log(name=f"Loading {len(periods)} periods one by one: {reason}.")
    rounds, context, timer = list[Round](), None, NO_STEPS
    if request.is_durable and periods:
        timer = yield from start_timer()
        context = yield from inspect_target_for_load(request)
        resumable_loads = yield from find_resumable_loads(request, periods, context)
        timer = yield from timer.end("inspect")
        rounds = [
            Round(periods=tuple(load.periods), retry_state=load.retry_state, timer=timer, resumable=load)
            for load in resumable_loads
        ]
    left = [period for period in periods if not any(period in load_round.periods for load_round in rounds)]
    most = 1 if reason else _MOST_PERIODS
    parts = [tuple(left[first : first + most]) for first in range(0, len(left), most)]
    return rounds + [Round(periods=part, timer=timer, context=context) for part in parts]


def further_rounds(load_round: Round, outcome: LoadsOutcome) -> Steps[list[Round]]:
    """Return the rounds of the periods that an attempt has not loaded, or raise an error that all would meet."""
    is_of_one, rounds = len(load_round.periods) == 1, list[Round]()
    errors = load_round.refused | load_round.errors if is_of_one else load_round.refused
    if is_of_one and load_round.error:
        errors = dict.fromkeys(load_round.periods, load_round.error)
    for period, error in errors.items():
        rounds += yield from _start_over(load_round, period, error, outcome)
    if is_of_one:
        return rounds
    rounds = _merge_rounds(rounds)
    for period, error in load_round.errors.items():
        yield from Log(name=f"{period} was not published with the others: {error}")
        # A later load may still be running: this one must not end it.
        if isinstance(error, SupersededError | ReplicasBehindError):
            outcome.errors[period] = error
    left = [period for period in load_round.periods if not (load_round.has(period) or period in outcome.errors)]
    rounds += yield from _split_round(load_round, left)
    alone = [period for period in load_round.errors if period not in outcome.errors]
    return rounds + [Round(periods=(period,)) for period in alone]


def _merge_rounds(rounds: Sequence[Round]) -> list[Round]:
    alike = dict[RetryState, Round]()
    for load_round in rounds:
        known = alike.setdefault(load_round.retry_state, load_round)
        if known is not load_round:
            known.periods += load_round.periods
            known.timer = load_round.timer
    return list(alike.values())


def _start_over(load_round: Round, period: Period, error: Chs3Error, outcome: LoadsOutcome) -> Steps[list[Round]]:
    """Return the round of a period that starts over; none if its error is final."""
    load = load_round.loads.get(period)
    if load:
        error = yield from _check_changed(load, error)
    again = next_retry(error, load_round.retry_state)
    if again is None:
        if load:
            yield from record_failure(load, error)
        outcome.errors[period] = error
        return []
    timer = yield from _wait(error, again, load_round.timer)
    return [Round(periods=(period,), retry_state=again.retry_state, timer=timer)]


def _wait(error: Chs3Error, again: Retry, timer: StepTimer) -> Steps[StepTimer]:
    yield from Log(name=f"{error} Starting over: {again.reason}.")
    if again.wait_seconds:
        yield from Sleep(name=f"Wait {again.wait_seconds} s", seconds=again.wait_seconds)
    return (yield from timer.end("start_over"))


def _split_round(load_round: Round, periods: Sequence[Period]) -> Steps[list[Round]]:
    """Return the rounds of periods after a common error, or raise it if every period would meet it."""
    error = load_round.error
    if error is None or not periods:
        return [Round(periods=(period,)) for period in periods]
    was_ended = isinstance(error, ClickHouseServerError) and error.code == QUERY_WAS_CANCELLED
    is_of_each = (
        isinstance(error, PreflightError | ClickHouseServerError) and is_terminal(error) and not load_round.loads
    )
    if was_ended or is_of_each or isinstance(error, (SupersededError, *OF_ALL)):
        raise error
    may_retry = isinstance(error, ClickHouseServerError | FilesDifferError)
    if may_retry and (again := next_retry(error, load_round.retry_state)):
        timer = yield from _wait(error, again, load_round.timer)
        return [Round(periods=tuple(periods), retry_state=again.retry_state, timer=timer, partings=load_round.partings)]
    named = {period for period in periods if _is_named(load_round.loads.get(period), error)}
    if named and load_round.partings < _MOST_PARTINGS:
        yield from Log(name=f"{sentence(str(error))} The other periods continue without {', '.join(map(str, named))}.")
        others = tuple(period for period in periods if period not in named)
        rest = [Round(periods=others, partings=load_round.partings + 1)] if others else []
        return rest + [Round(periods=(period,)) for period in sorted(named)]
    yield from Log(name=f"{sentence(str(error))} Loading the periods one by one, so that each reports its own error.")
    return [Round(periods=(period,)) for period in periods]


def _is_named(load: PeriodLoad | None, error: Chs3Error) -> bool:
    text = str(error)
    return load is not None and any(unit.path in text for unit in load.files.manifest.objects)


def _check_changed(load: PeriodLoad, error: Chs3Error) -> Steps[Chs3Error]:
    """Return the error, or that of objects that changed meanwhile: half of an overwritten file may have been read."""
    is_of_server = isinstance(error, ClickHouseServerError) and bool(is_terminal(error) or file_of(error))
    if not is_of_server and not isinstance(error, SourceError):
        return error
    try:
        _, listed = yield from load.files.source.list_period(load.period)
        check_objects(load, listed, cause=error)
    except ObjectsChangedError as changed:
        return changed
    except Chs3Error:
        # The first error is more informative.
        return error
    return error


def _why_one_by_one(request: LoadRequest) -> str:
    if reason := request.source.why_one_by_one:
        return reason
    # Skipped rows would look like missing ones.
    if (policy := request.policies.on_other_periods) != "fail":
        return f"policies['on_other_periods']={policy!r}"
    # NULL becomes the column's default, which may be in another period than its file.
    return "casts={'null_as_default': True}" if request.selection.null_as_default else ""
