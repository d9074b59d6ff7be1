"""Search for the settings to keep, without mistaking noise for a gain over the rule.

The rule is the baseline. Each candidate alternates with the best so far, so that a machine that becomes slower slows
down both, and what counts is the ratio of adjacent trials. Themes are tried one after another, and winners stay. At
the end the winner competes with the rule in trials of their own, as the best of many looks better than it is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, TypeAlias, TypeVar

from airflow_provider_chs3.core.tuning.calibrated_profile import BY_RULE, Knobs
from airflow_provider_chs3.core.tuning.resource_share import ResourceShare

#: Per core. Two insert threads per core, or eight reading threads, are plenty: more are not worth a trial.
_INSERT_THREADS = (0.5, 1.0, 2.0)
_READ_THREADS = (1.0, 2.0, 4.0, 8.0)
_BLOCKS = (2.0, 0.5)
_MIB = 1024**2
_BUFFERS = (10 * _MIB, 50 * _MIB)
_DOWNLOADS = (1, 8)


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """The settings to load the sample with.

    Args:
        label: Description of the candidate.
        knobs: Deviations from the rules. Default: none.
        periods: Number of parts into which the sample is divided, each loaded like a period. Default: 1.
        side_by_side: Number of parts that load at the same time. Default: 1.
    """

    label: str
    knobs: Knobs = BY_RULE
    periods: int = 1
    side_by_side: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialResult:
    """The result of a trial.

    Args:
        seconds: Duration of the sample's insert; None if it exceeded its share of the memory.
        parts: Number of parts that were written, on all shards.
        peak_memory_bytes: Highest memory observed on one node; None if the insert was too short to observe.
        at_seconds: Time since the calibration began.
    """

    seconds: float | None
    parts: int = 0
    peak_memory_bytes: int | None = None
    at_seconds: float = 0.0


#: Variants that are compared in alternating trials: label → the knobs that it changes.
Theme: TypeAlias = Mapping[str, Mapping[str, Any]]


def themes(one: ResourceShare) -> list[Theme]:
    """Return the themes to try.

    Args:
        one: A load's resource share.
    """
    insert = {f"{max(1, round(one.cores * each))} insert threads": {"insert_threads": each} for each in _INSERT_THREADS}
    read = {f"{max(1, round(one.cores * each))} reading threads": {"read_threads": each} for each in _READ_THREADS}
    blocks = {f"blocks × {each:g}": {"block": each} for each in _BLOCKS}
    buffers = {f"download buffer {each // _MIB} MiB": {"download_buffer_bytes": each} for each in _BUFFERS}
    downloads = {f"{each} download threads": {"download_threads": each} for each in _DOWNLOADS}
    return [insert, read, blocks, buffers | downloads]


T = TypeVar("T")

#: Rounds of a theme, and of the final between the winner and the rule.
ROUNDS, FINAL_ROUNDS = 3, 5
#: A smaller gain may be noise, even if little noise was measured.
LEAST_GAIN = 0.03
#: A candidate that writes more than this many times as many parts cannot win: merges would do the work later. One more
#: part on each node does no harm.
MOST_PARTS = 1.5

_RULE = Candidate(label="the rule")


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The best candidate.

    Args:
        knobs: Deviations from the rules; none if nothing was better by more than noise.
        seconds: Median of its final trials.
        rule_seconds: Median of the rule's trials that alternated with them.
        noise: Minimum gain, as a fraction of the rule's seconds.
        reason: Explanation of the choice.
        parallel_loads: Number of parallel periods that was the fastest; None if not tried.
        verdicts: Label → verdict, in the order of the trials.
    """

    knobs: Knobs
    seconds: float
    rule_seconds: float
    noise: float
    reason: str
    parallel_loads: int | None
    verdicts: Mapping[str, str]


Search: TypeAlias = Generator[Candidate, TrialResult, T]


def most_trials(every: Iterable[Theme], *, side_by_side: Sequence[int]) -> int:
    """Return the maximum number of trials.

    Args:
        every: The themes.
        side_by_side: Numbers of parallel periods to compare with one.
    """
    of_themes = sum(ROUNDS * (1 + len(each)) for each in every if each)
    return of_themes + 2 * FINAL_ROUNDS + (ROUNDS * (1 + len(side_by_side)) if side_by_side else 0)


def search(
    every: Iterable[Theme],
    *,
    budget_seconds: float,
    is_same: Callable[[Knobs, Knobs], bool],
    nodes: int,
    side_by_side: Sequence[int] = (),
) -> Search[Choice]:
    """Yield the candidates to try, one after another, and return the choice.

    Args:
        every: The themes, in this order.
        budget_seconds: Time limit: no trial begins that would end later.
        is_same: Checks whether two sets of knobs lead to the same settings, so that one of them is skipped.
        nodes: Number of nodes that load.
        side_by_side: Numbers of parallel periods to compare with one, each at least two. Default: none.
    """
    return (yield from _Searching(budget_seconds, is_same, nodes).run(list(every), side_by_side))


@dataclass
class _Searching:
    """A search in progress."""

    budget_seconds: float
    is_same: Callable[[Knobs, Knobs], bool]
    nodes: int
    at_seconds: float = 0.0
    trial_seconds: float = 0.0
    verdicts: dict[str, str] = field(default_factory=dict)
    by_rule: list[float] = field(default_factory=list)

    def run(self, every: Sequence[Theme], side_by_side: Sequence[int]) -> Search[Choice]:
        best = _RULE
        for theme in every:
            rivals = self._rivals(theme, best)
            won = yield from self._contest(best, rivals, rounds=ROUNDS, reserve=2 * FINAL_ROUNDS)
            best = won.winner or best
        final = _ContestResult()
        if best is not _RULE:
            final = yield from self._contest(_RULE, [best], rounds=FINAL_ROUNDS, reserve=0)
            if not final.winner:
                best = _RULE
        parallel_loads = yield from self._side_by_side(best.knobs, side_by_side)
        return self._choice(best, final, parallel_loads)

    def _choice(self, best: Candidate, final: _ContestResult, parallel_loads: int | None) -> Choice:
        if best is _RULE:
            seconds = rule_seconds = median(self.by_rule or [0.0])
            noise = _noise(self.by_rule)
            reason = f"nothing was faster than the rule by more than noise ({noise:.0%})"
        else:
            seconds, rule_seconds, noise = final.winner_seconds, final.seconds, final.noise
            reason = f"faster than the rule by more than noise ({noise:.0%})"
        return Choice(
            knobs=best.knobs,
            seconds=seconds,
            rule_seconds=rule_seconds,
            noise=noise,
            reason=reason,
            parallel_loads=parallel_loads,
            verdicts=dict(self.verdicts),
        )

    def _rivals(self, theme: Theme, best: Candidate) -> list[Candidate]:
        rivals: list[Candidate] = []
        for label, changes in theme.items():
            knobs = replace(best.knobs, **changes)
            if not any(self.is_same(knobs, other.knobs) for other in (best, *rivals)):
                also = "" if best.knobs == BY_RULE else f"{best.label}, "
                rivals.append(Candidate(label=f"{also}{label}", knobs=knobs))
        return rivals

    def _side_by_side(self, knobs: Knobs, numbers: Sequence[int]) -> Search[int | None]:
        if not numbers:
            return None
        periods = max(numbers)
        one = Candidate(label=f"{periods} periods, one after another", knobs=knobs, periods=periods)
        rivals = [
            Candidate(label=f"{periods} periods, {each} at a time", knobs=knobs, periods=periods, side_by_side=each)
            for each in numbers
        ]
        won = yield from self._contest(one, rivals, rounds=ROUNDS, reserve=0)
        if not won.is_complete:
            return None
        return won.winner.side_by_side if won.winner else 1

    def _is_over(self, trials: int) -> bool:
        return self.at_seconds + trials * self.trial_seconds > self.budget_seconds

    def _try(self, each: Candidate) -> Search[TrialResult]:
        self.verdicts.setdefault(each.label, "incomplete")
        result = yield each
        self.at_seconds = result.at_seconds
        self.trial_seconds = result.seconds or self.trial_seconds
        if each is _RULE and result.seconds is not None:
            self.by_rule.append(result.seconds)
        return result

    def _contest(
        self, reference: Candidate, rivals: Sequence[Candidate], *, rounds: int, reserve: int
    ) -> Search[_ContestResult]:
        """Alternate the reference and its rivals, and drop rivals that can no longer win.

        Args:
            reference: The candidate to beat.
            rivals: The candidates that compete with it.
            rounds: Number of rounds.
            reserve: Number of trials that the budget must still allow afterwards.
        """
        self.verdicts.setdefault(reference.label, "baseline")
        seconds: list[float] = []
        most_parts = 0.0
        of_rivals: dict[Candidate, list[float]] = {each: [] for each in rivals}
        for number in range(rounds):
            if not of_rivals or self._is_over(1 + len(of_rivals) + reserve):
                break
            turn = [reference, *of_rivals]
            results = {}
            for each in turn if number % 2 == 0 else reversed(turn):
                results[each] = yield from self._try(each)
            base = results[reference]
            if base.seconds is None:
                break
            seconds.append(base.seconds)
            most_parts = max(most_parts, MOST_PARTS * base.parts, base.parts + self.nodes)
            for each in list(of_rivals):
                if verdict := _disqualification(results[each], most_parts):
                    self.verdicts[each.label] = verdict
                    del of_rivals[each]
                    continue
                of_rivals[each].append(results[each].seconds or 0.0)
                if _ratio(of_rivals[each], seconds) >= 1:
                    self.verdicts[each.label] = "not faster"
                    del of_rivals[each]
        return self._winner(seconds, of_rivals, is_complete=len(seconds) == rounds or not of_rivals)

    def _winner(
        self, seconds: list[float], rivals: Mapping[Candidate, list[float]], *, is_complete: bool
    ) -> _ContestResult:
        noise = _noise(seconds)
        won = _ContestResult(noise=noise, seconds=median(seconds) if seconds else 0.0, is_complete=is_complete)
        if not is_complete or not rivals:
            return won
        gains = {each: 1 - _ratio(own, seconds) for each, own in rivals.items()}
        best = max(gains, key=lambda each: gains[each])
        for each, gain in gains.items():
            self.verdicts[each.label] = f"faster by {gain:.0%}" + ("" if gain > noise else f", noise is {noise:.0%}")
        if gains[best] <= noise:
            return won
        return replace(won, winner=best, winner_seconds=median(rivals[best]))


@dataclass(frozen=True, kw_only=True, slots=True)
class _ContestResult:
    """The result of a contest.

    Args:
        winner: The rival that beat the reference by more than noise; None if none did.
        noise: Minimum gain.
        seconds: Median of the reference.
        winner_seconds: Median of the winner.
        is_complete: Whether all rounds took place.
    """

    winner: Candidate | None = None
    noise: float = LEAST_GAIN
    seconds: float = 0.0
    winner_seconds: float = 0.0
    is_complete: bool = False


def _disqualification(result: TrialResult, most_parts: float) -> str:
    """Return why a trial's candidate cannot win; empty if it can."""
    if result.seconds is None:
        return "exceeded its share of memory"
    return f"too many parts: {result.parts}" if result.parts > most_parts else ""


def _ratio(own: Sequence[float], others: Sequence[float]) -> float:
    """Return the median of the ratios of adjacent trials."""
    return median(each / other for each, other in zip(own, others, strict=True))


def _noise(seconds: Sequence[float]) -> float:
    """Return the minimum gain: twice the spread of trials with the same settings, at least `LEAST_GAIN`."""
    return max(LEAST_GAIN, 2 * spread(seconds))


def spread(seconds: Sequence[float]) -> float:
    """Return how much trials with the same settings differ: the median distance from their median, relative to it.

    Args:
        seconds: Durations of the trials; fewer than two give 0.
    """
    if len(seconds) < 2:
        return 0.0
    middle = median(seconds)
    return median(abs(each - middle) for each in seconds) / middle if middle else 0.0
