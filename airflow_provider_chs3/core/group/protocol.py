"""The load of several months: together where that is possible, else one by one. See docs/protocol.md for the reasons.

list → inspect → compare with the ledger → plan → stage → insert → verify; then for each month: publish → record
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_chs3.core.group.eligibility import why_one_by_one
from airflow_provider_chs3.core.group.insertion import insert_group
from airflow_provider_chs3.core.group.planning import GroupPlan, check_months, plan_group
from airflow_provider_chs3.core.group.publication import publish_group
from airflow_provider_chs3.core.load.cleaning import clean_up_all
from airflow_provider_chs3.core.load.planning import ComparedMonth
from airflow_provider_chs3.core.load.protocol import load_month
from airflow_provider_chs3.core.new_table.creation import create_if_missing
from airflow_provider_chs3.core.preflight.privileges import privilege_of_filling, why_not_granted
from airflow_provider_chs3.core.request.load_request import LoadRequest
from airflow_provider_chs3.core.values.error_codes import QUERY_WAS_CANCELLED, is_terminal, sentence, with_hint
from airflow_provider_chs3.core.values.load_result import LoadResult
from airflow_provider_chs3.core.values.models import Month
from airflow_provider_chs3.core.values.quantities import quantity
from airflow_provider_chs3.core.workflow.operations import Log, Steps
from airflow_provider_chs3.core.workflow.step_timer import start_timer
from airflow_provider_chs3.exceptions import (
    Chs3Error,
    ClickHouseConnectionError,
    ClickHouseServerError,
    MonthsFailedError,
    MonthsNotLoadedError,
    PreflightError,
    ReplicasBehindError,
    SupersededError,
)

#: Servers refuse an INSERT of more partitions (`max_partitions_per_insert_block`).
MOST_MONTHS = 100
#: What each month would meet again, after as long a wait.
_OF_ALL_MONTHS = (ClickHouseConnectionError, ReplicasBehindError)
#: Months that an error names: more would hide the first.
_TOLD = 10


@dataclass(frozen=True, slots=True)
class MonthsOutcome:
    """What a load of several months did.

    Args:
        results: The result of each month that did not fail.
        errors: The error of each that did.
    """

    results: Mapping[Month, LoadResult] = field(default_factory=dict)
    errors: Mapping[Month, Chs3Error] = field(default_factory=dict)

    def and_then(self, results: Iterable[LoadResult], errors: Mapping[Month, Chs3Error]) -> MonthsOutcome:
        """Return the outcome with that of further months."""
        return MonthsOutcome({**self.results, **{each.month: each for each in results}}, {**self.errors, **errors})

    @property
    def error(self) -> Chs3Error | None:
        """One error for all months that failed; None if none did."""
        if not self.errors:
            return None
        if not self.results and len(self.errors) == 1:
            return next(iter(self.errors.values()))
        # What concerns the server or the user is the same for all.
        months_by_text = defaultdict[str, list[Month]](list)
        for month, error in sorted(self.errors.items()):
            months_by_text[with_hint(error, str(error))].append(month)
        told = [f"{', '.join(map(str, months))}: {text}" for text, months in months_by_text.items()]
        rest = [f"and {len(told) - _TOLD} more"] if len(told) > _TOLD else []
        failed = len(self.errors)
        others = "; the others are loaded" if self.results else ""
        text = f"{failed} of {quantity(failed + len(self.results), 'month')} failed{others}."
        kind = MonthsFailedError if all(map(is_terminal, self.errors.values())) else MonthsNotLoadedError
        return kind("\n  ".join([text, *told[:_TOLD], *rest]))

    def missing_of(self, months: Iterable[Month]) -> list[Month]:
        """Return the months without an outcome."""
        return [month for month in months if month not in self.results and month not in self.errors]


def load_months(request: LoadRequest, months: Sequence[Month]) -> Steps[MonthsOutcome]:
    """Make each month's partition hold exactly the rows of that month's objects.

    Months are inserted with one statement where they can be, and published month by month. A month that cannot be, or
    that fails, is loaded by itself: its error is that of `load_month`, and the others are published.

    Args:
        request: The load; its month is none of them.
        months: The months, in any order.

    Raises:
        Chs3Error: If no month could be loaded, as servers do not answer or the target cannot take a load.
    """
    months = sorted(set(months))
    outcome = MonthsOutcome()
    if request.new_table:
        yield from create_if_missing(request.new_table, months)
    if len(months) > 1:
        why = why_one_by_one(request)
        if why:
            yield from Log(name=f"Loading {len(months)} months one by one: {why}.")
        else:
            for first in range(0, len(months), MOST_MONTHS):
                outcome = yield from _load_together(request, months[first : first + MOST_MONTHS], outcome)
    return (yield from _load_one_by_one(request, outcome.missing_of(months), outcome))


def _load_together(request: LoadRequest, months: Sequence[Month], outcome: MonthsOutcome) -> Steps[MonthsOutcome]:
    timer = yield from start_timer()
    try:
        checked = yield from check_months(request, months, timer)
    except PreflightError:
        # Each month would meet it.
        raise
    except Chs3Error as error:
        return (yield from _one_by_one_after(error, outcome))
    outcome = outcome.and_then(checked.unchanged, {})
    if len(checked.to_load) == 1:
        # As in most nights: what it was compared by need not be asked for again.
        (compared,) = checked.to_load
        return (yield from _load_one(request, compared.month, outcome, compared))
    if not checked.to_load:
        return outcome
    context = checked.to_load[0].load.context
    if why := (yield from why_not_granted(tuple(context.nodes), [privilege_of_filling(context.ledger)])):
        yield from Log(name=f"Loading {len(checked.to_load)} months one by one: {why}.")
        return outcome
    timer = yield from checked.to_load[0].load.timer.end("inspect")
    try:
        group = yield from plan_group(request, checked.to_load, timer)
        if group is None:
            return outcome
        return (yield from _load_group(group, outcome))
    except Chs3Error as error:
        return (yield from _one_by_one_after(error, outcome))


def _one_by_one_after(error: Chs3Error, outcome: MonthsOutcome) -> Steps[MonthsOutcome]:
    """Continue with each month by itself, unless servers do not answer, or somebody ended the load."""
    was_ended = isinstance(error, ClickHouseServerError) and error.code == QUERY_WAS_CANCELLED
    if was_ended or isinstance(error, (SupersededError, *_OF_ALL_MONTHS)):
        raise error
    yield from Log(name=f"{sentence(str(error))} Loading the months one by one, so that each reports its own error.")
    return outcome


def _load_group(group: GroupPlan, outcome: MonthsOutcome) -> Steps[MonthsOutcome]:
    load = group.load
    manifest = load.files.manifest
    yield from Log(
        name=f"Loading {load.months} together: {manifest.sizes}, {quantity(len(load.context.nodes), 'node')}."
    )
    try:
        staged = yield from insert_group(group)
        group = staged.group
        yield from Log(name=f"The rows of {load.months} are staged and verified: publishing month by month.")
        by_month, attempts = yield from publish_group(staged)
    except Exception:
        yield from clean_up_all(load)
        raise
    is_done = all(isinstance(each, LoadResult) for each in by_month.values())
    yield from clean_up_all(load, done=(load.attempt, *attempts) if is_done else ())
    for month, each in by_month.items():
        if isinstance(each, Chs3Error):
            yield from Log(name=f"{month} was not published with the others: {each}")
    # A load that came later may still be at it: this one must not end it.
    ends = (SupersededError, ReplicasBehindError)
    final = {month: each for month, each in by_month.items() if isinstance(each, ends)}
    return outcome.and_then((each for each in by_month.values() if isinstance(each, LoadResult)), final)


def _load_one_by_one(request: LoadRequest, months: Sequence[Month], outcome: MonthsOutcome) -> Steps[MonthsOutcome]:
    for month in months:
        lost = next((error for error in outcome.errors.values() if isinstance(error, _OF_ALL_MONTHS)), None)
        if lost:
            # The next one would wait for the same servers.
            outcome = outcome.and_then((), {month: lost})
            continue
        outcome = yield from _load_one(request, month, outcome)
        if len(months) > 1:
            done = outcome.results.get(month)
            yield from Log(name=done.summary() if done else f"{month} failed: {outcome.errors[month]}")
    return outcome


def _load_one(
    request: LoadRequest, month: Month, outcome: MonthsOutcome, compared: ComparedMonth | None = None
) -> Steps[MonthsOutcome]:
    try:
        # Of another name than the group's attempt: staging is never used again.
        result = yield from load_month(replace(request, month=month, nonce=f"{request.nonce}m"), compared)
    except Chs3Error as error:
        return outcome.and_then((), {month: error})
    return outcome.and_then([result], {})
