"""The load of periods, written once. See docs/protocol.md for the reasons and the invariants."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_chs3.core.files.table_creation import create_if_missing
from airflow_provider_chs3.core.load.attempt import attempt
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.load.load_result import LoadResult
from airflow_provider_chs3.core.load.rounds import OF_ALL, LoadsOutcome, Round, first_rounds, further_rounds
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.steps.operations import Log, Steps
from airflow_provider_chs3.exceptions import Chs3Error


def load_periods(request: LoadRequest, periods: Sequence[Period]) -> Steps[LoadsOutcome]:
    """Make each period's partition hold exactly the rows of that period's objects.

    A single statement inserts several periods where possible. If a period fails, it leaves, the others are published,
    and it is loaded separately to report its own error. A load starts over after transient errors, or errors that
    other settings avoid: changing objects, too little memory, overloaded servers (see `core.load.retry_policy`). If
    inserts outlive their process, the workflow resumes an insert of an earlier process of the task (see
    `core.load.resume`).

    Returns:
        The result or the error of every period. The target of a failed period is unchanged, unless the error says
        otherwise.

    Raises:
        Chs3Error: If none of several periods can be loaded, because of the servers or the target.
    """
    outcome, left = LoadsOutcome(), list[Period]()
    for period in sorted(set(periods)):
        if (yield from request.is_left_out(period)):
            reason = f"this run reloads {request.reload}"
            outcome.results[period] = LoadResult(status="skipped", period=period, target=request.target, reason=reason)
        else:
            left.append(period)
    if left and request.new_table:
        yield from create_if_missing(request.new_table, left)
    rounds = deque((yield from first_rounds(request, left)))
    number = 0
    while rounds:
        load_round = rounds.popleft()
        attempt_request = replace(request, nonce=f"{request.nonce}{number or ''}", period=load_round.periods[0])
        tried = yield from attempt(attempt_request, load_round)
        outcome.results.update(tried.results)
        further = yield from further_rounds(request, load_round, tried, outcome)
        rounds.extendleft(reversed(further))
        if len(left) > len(load_round.periods):
            yield from _log_results(load_round, outcome)
        if rounds and (lost := _connection_error(outcome)):
            # Further rounds would wait for the same servers.
            outcome.errors.update({period: lost for next_round in rounds for period in next_round.periods})
            break
        number += 1
    return outcome


def _connection_error(outcome: LoadsOutcome) -> Chs3Error | None:
    return next((error for error in outcome.errors.values() if isinstance(error, OF_ALL)), None)


def _log_results(load_round: Round, outcome: LoadsOutcome) -> Steps[None]:
    for period in load_round.periods:
        if period in outcome.results:
            yield from Log(name=outcome.results[period].summary())
        elif period in outcome.errors:
            yield from Log(name=f"{period} failed: {outcome.errors[period]}")
