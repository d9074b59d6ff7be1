"""Which settings to keep: a search that never leaves the rule for noise.

The rule is the baseline. Tries take turns with what is the best so far, so that a machine that gets slower meanwhile
slows down both, and what counts is the ratio of two neighbours. One theme after another: what wins stays. At the end
the winner meets the rule itself in tries of their own, as the best of many looks better than it is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TypeAlias, TypeVar

from airflow_provider_chs3.core.calibration.candidates import Candidate, Theme, TrialResult
from airflow_provider_chs3.core.tuning.calibrated_profile import BY_RULE, Knobs

T = TypeVar("T")

#: Turns of a theme, and of the winner with the rule.
ROUNDS, FINAL_ROUNDS = 3, 5
#: What is better by less may be noise, however little of it was seen.
LEAST_GAIN = 0.03
#: What is faster because it leaves so many times as many parts is not: merges do the work later. One more on each node
#: does no harm.
MOST_PARTS = 1.5

_RULE = Candidate(label="the rule")


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What is the best.

    Args:
        knobs: Where loads should depart from the rules; nowhere, if nothing was better by more than noise.
        seconds: The median of its last tries.
        rule_seconds: Those of the rule, in turns with them.
        noise: What must be won at least, as a part of the rule's seconds.
        reason: Why, in words.
        parallel_months: How many months side by side were the fastest; None where that was not tried.
        verdicts: Label → what became of it, in the order of the tries.
    """

    knobs: Knobs
    seconds: float
    rule_seconds: float
    noise: float
    reason: str
    parallel_months: int | None
    verdicts: Mapping[str, str]


Search: TypeAlias = Generator[Candidate, TrialResult, T]


def most_trials(every: Iterable[Theme], *, side_by_side: Sequence[int]) -> int:
    """How many tries there are at most.

    Args:
        every: The themes.
        side_by_side: Numbers of months that are tried beside one.
    """
    of_themes = sum(ROUNDS * (1 + len(each.changes)) for each in every if each.changes)
    return of_themes + 2 * FINAL_ROUNDS + (ROUNDS * (1 + len(side_by_side)) if side_by_side else 0)


def search(
    every: Iterable[Theme],
    *,
    budget_seconds: float,
    is_same: Callable[[Knobs, Knobs], bool],
    nodes: int,
    side_by_side: Sequence[int] = (),
) -> Search[Choice]:
    """Ask for tries, one after the other, and choose.

    Args:
        every: What to try, in this order.
        budget_seconds: No try begins that would end later than this after the beginning.
        is_same: Whether two ways lead to the same settings, so that one of them need not be tried.
        nodes: How many nodes load.
        side_by_side: Numbers of months to try beside one, all at least two; none does not try.
    """
    return (yield from _Searching(budget_seconds, is_same, nodes).run(list(every), side_by_side))


@dataclass
class _Searching:
    """A search under way."""

    budget_seconds: float
    is_same: Callable[[Knobs, Knobs], bool]
    nodes: int
    at_seconds: float = 0.0
    try_seconds: float = 0.0
    verdicts: dict[str, str] = field(default_factory=dict)
    by_rule: list[float] = field(default_factory=list)

    def run(self, every: Sequence[Theme], side_by_side: Sequence[int]) -> Search[Choice]:
        best = _RULE
        for theme in every:
            rivals = self._rivals(theme, best)
            won = yield from self._contest(best, rivals, rounds=ROUNDS, reserve=2 * FINAL_ROUNDS)
            best = won.winner or best
        final = _Won()
        if best is not _RULE:
            final = yield from self._contest(_RULE, [best], rounds=FINAL_ROUNDS, reserve=0)
            if not final.winner:
                best = _RULE
        parallel_months = yield from self._side_by_side(best.knobs, side_by_side)
        return self._choice(best, final, parallel_months)

    def _choice(self, best: Candidate, final: _Won, parallel_months: int | None) -> Choice:
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
            parallel_months=parallel_months,
            verdicts=dict(self.verdicts),
        )

    def _rivals(self, theme: Theme, best: Candidate) -> list[Candidate]:
        rivals: list[Candidate] = []
        for label, changes in theme.changes.items():
            knobs = replace(best.knobs, **changes)
            if not any(self.is_same(knobs, other.knobs) for other in (best, *rivals)):
                also = "" if best.knobs == BY_RULE else f"{best.label}, "
                rivals.append(Candidate(label=f"{also}{label}", knobs=knobs))
        return rivals

    def _side_by_side(self, knobs: Knobs, numbers: Sequence[int]) -> Search[int | None]:
        if not numbers:
            return None
        months = max(numbers)
        one = Candidate(label=f"{months} months, one after another", knobs=knobs, months=months)
        rivals = [
            Candidate(label=f"{months} months, {each} at a time", knobs=knobs, months=months, side_by_side=each)
            for each in numbers
        ]
        won = yield from self._contest(one, rivals, rounds=ROUNDS, reserve=0)
        if not won.is_complete:
            return None
        return won.winner.side_by_side if won.winner else 1

    def _is_over(self, tries: int) -> bool:
        return self.at_seconds + tries * self.try_seconds > self.budget_seconds

    def _tried(self, each: Candidate) -> Search[TrialResult]:
        self.verdicts.setdefault(each.label, "not tried to the end")
        tried = yield each
        self.at_seconds = tried.at_seconds
        self.try_seconds = tried.seconds or self.try_seconds
        if each is _RULE and tried.seconds is not None:
            self.by_rule.append(tried.seconds)
        return tried

    def _contest(self, reference: Candidate, rivals: Sequence[Candidate], *, rounds: int, reserve: int) -> Search[_Won]:
        """Turns of the reference and its rivals; who cannot win any more is out.

        Args:
            reference: What is to be beaten.
            rivals: Those who try.
            rounds: How many turns.
            reserve: Tries that the budget must have room for afterwards.
        """
        self.verdicts.setdefault(reference.label, "what others are measured by")
        seconds: list[float] = []
        most_parts = 0.0
        of_rivals: dict[Candidate, list[float]] = {each: [] for each in rivals}
        for number in range(rounds):
            if not of_rivals or self._is_over(1 + len(of_rivals) + reserve):
                break
            turn = [reference, *of_rivals]
            results = {}
            for each in turn if number % 2 == 0 else reversed(turn):
                results[each] = yield from self._tried(each)
            base = results[reference]
            if base.seconds is None:
                break
            seconds.append(base.seconds)
            most_parts = max(most_parts, MOST_PARTS * base.parts, base.parts + self.nodes)
            for each in list(of_rivals):
                if verdict := _out(results[each], most_parts):
                    self.verdicts[each.label] = verdict
                    del of_rivals[each]
                    continue
                of_rivals[each].append(results[each].seconds or 0.0)
                if _ratio(of_rivals[each], seconds) >= 1:
                    self.verdicts[each.label] = "not faster"
                    del of_rivals[each]
        return self._winner(seconds, of_rivals, is_complete=len(seconds) == rounds or not of_rivals)

    def _winner(self, seconds: list[float], rivals: Mapping[Candidate, list[float]], *, is_complete: bool) -> _Won:
        noise = _noise(seconds)
        won = _Won(noise=noise, seconds=median(seconds) if seconds else 0.0, is_complete=is_complete)
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
class _Won:
    """What came of a contest.

    Args:
        winner: Who was better than the reference by more than noise; None where nobody was.
        noise: What had to be won.
        seconds: The reference's median.
        winner_seconds: The winner's.
        is_complete: Whether all turns took place.
    """

    winner: Candidate | None = None
    noise: float = LEAST_GAIN
    seconds: float = 0.0
    winner_seconds: float = 0.0
    is_complete: bool = False


def _out(tried: TrialResult, most_parts: float) -> str:
    """Why a try cannot win; empty where it can."""
    if tried.seconds is None:
        return "out of its share of memory"
    return f"too many parts: {tried.parts}" if tried.parts > most_parts else ""


def _ratio(own: Sequence[float], others: Sequence[float]) -> float:
    """The median of the ratios of neighbours."""
    return median(each / other for each, other in zip(own, others, strict=True))


def _noise(seconds: Sequence[float]) -> float:
    """What must be won at least: twice as much as tries of the same usually differ from their median."""
    return max(LEAST_GAIN, 2 * spread(seconds))


def spread(seconds: Sequence[float]) -> float:
    """How much tries of the same differ, as a part of their median: the median of their distances from it.

    Args:
        seconds: The tries; with fewer than two nothing is known, which is 0.
    """
    if len(seconds) < 2:
        return 0.0
    middle = median(seconds)
    return median(abs(each - middle) for each in seconds) / middle if middle else 0.0
