"""Measurements: variants in turns with their ratios, or a table; each with what it should come to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

#: The figures of one run of a variant: name, with its unit, to figure.
Figures = Mapping[str, float]
#: The figures of one round: variant to figures.
Round = Mapping[str, Figures]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether something came out as it should."""

    claim: str
    found: str
    is_met: bool

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {"claim": self.claim, "found": self.found, "is_met": self.is_met}

    def line(self) -> str:
        """One line."""
        return f"{'met' if self.is_met else 'MISSED'}: {self.claim}; it is {self.found}"


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The aim for the median of a variant's ratios, or of its values."""

    variant: str
    figure: str
    at_most: float | None = None
    at_least: float | None = None
    base: str | None = None
    is_ratio: bool = True


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Variants that were measured in turns."""

    title: str
    variants: Sequence[str]
    figures: Sequence[str]
    rounds: Sequence[Round]
    aim: str = ""
    gates: Sequence[Gate] = ()
    beside: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def values(self, variant: str, figure: str) -> list[float]:
        """The figure of each round."""
        return [each[variant][figure] for each in self.rounds]

    def ratios(self, variant: str, figure: str, base: str | None = None) -> list[float]:
        """The ratio of each round: what else the machine did in a round it did to all variants."""
        pairs = zip(self.values(variant, figure), self.values(base or self.variants[0], figure), strict=True)
        return [value / of_base for value, of_base in pairs if of_base]

    def verdicts(self) -> list[Verdict]:
        """Return the verdict on each gate."""
        return [self._verdict(gate) for gate in self.gates]

    def as_json(self) -> dict[str, Any]:
        """All figures of all rounds, and what follows from them."""
        variants = {
            variant: {
                figure: {
                    "values": self.values(variant, figure),
                    "median": median(self.values(variant, figure)),
                    "ratios": self.ratios(variant, figure),
                }
                for figure in self.figures
            }
            for variant in self.variants
        }
        return {
            "title": self.title,
            "aim": self.aim,
            "variants": variants,
            "beside": self.beside,
            "verdicts": [verdict.as_json() for verdict in self.verdicts()],
        }

    def print(self, console: Console) -> None:
        """Medians, and the medians of the ratios with the lowest and the highest in parentheses."""
        print_table(console, self.title, *cells_of(self.as_json()))
        _print_claims(console, self.aim, self.verdicts())

    def _verdict(self, gate: Gate) -> Verdict:
        if gate.is_ratio:
            what, values = (
                f"{gate.variant} to {gate.base or self.variants[0]}",
                self.ratios(gate.variant, gate.figure, gate.base),
            )
        else:
            what, values = gate.variant, self.values(gate.variant, gate.figure)
        # Rounds so short that they took nothing compare with nothing.
        found = median(values or [math.inf])
        bounds = [
            *([f"at most {gate.at_most:g}"] if gate.at_most is not None else []),
            *([f"at least {gate.at_least:g}"] if gate.at_least is not None else []),
        ]
        claim = f"{what}, {gate.figure}: {', '.join(bounds)}"
        is_met = (gate.at_most is None or found <= gate.at_most) and (gate.at_least is None or found >= gate.at_least)
        return Verdict(claim=claim, found=f"{found:.2f}", is_met=is_met)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Figures of which each stands for itself."""

    title: str
    rows: Sequence[Mapping[str, str | float]]
    aim: str = ""
    verdicts: Sequence[Verdict] = ()

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        rows, verdicts = [dict(row) for row in self.rows], [verdict.as_json() for verdict in self.verdicts]
        return {"title": self.title, "aim": self.aim, "rows": rows, "verdicts": verdicts}

    def print(self, console: Console) -> None:
        """The rows, and what they come to."""
        print_table(console, self.title, *cells_of(self.as_json()))
        _print_claims(console, self.aim, self.verdicts)


def cells_of(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of a table of what was measured."""
    if "rows" in result:
        heads = list(result["rows"][0])
        return heads, [[_shown(name, row.get(name, "")) for name in heads] for row in result["rows"]]
    figures = list(next(iter(result["variants"].values())))
    heads = ["", *(head for figure in figures for head in (figure, "ratio")), *result["beside"]]
    rows = [
        [
            variant,
            *(cell for figure in figures for cell in _cells(figure, measured[figure])),
            *(column.get(variant, "") for column in result["beside"].values()),
        ]
        for variant, measured in result["variants"].items()
    ]
    return heads, rows


def measure_in_turns(
    name: str, variants: Mapping[str, Callable[[], Figures]], *, rounds: int, console: Console, warm_up: bool = True
) -> list[Round]:
    """Measure variants in turns, every other round in the opposite order, after one round that does not count."""
    measured = []
    for number in range(0 if warm_up else 1, rounds + 1):
        console.print(f"{name}: {f'round {number} of {rounds}' if number else 'warm-up'}")
        names = list(variants)[:: 1 if number % 2 else -1]
        measured.append({variant: variants[variant]() for variant in names})
    return measured[-rounds:]


def print_table(console: Console, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on the console."""
    table = RichTable(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _print_claims(console: Console, aim: str, verdicts: Sequence[Verdict]) -> None:
    for line in [*([aim] if aim else []), *(verdict.line() for verdict in verdicts)]:
        console.print(line)


def _cells(figure: str, measured: Mapping[str, Any]) -> tuple[str, str]:
    ratios = measured["ratios"]
    spread = f" ({min(ratios):.2f}–{max(ratios):.2f})" if len(ratios) > 1 else ""
    return _shown(figure, measured["median"]), f"{median(ratios):.2f}{spread}" if ratios else "–"


def _shown(name: str, value: str | float) -> str:
    """Seconds and ratios to the hundredth, and whatever is small."""
    if isinstance(value, str):
        return value
    is_fine = "seconds" in name or "ratio" in name or not float(value).is_integer()
    return f"{value:,.2f}" if is_fine and abs(value) < 1000 else f"{value:,.0f}"
