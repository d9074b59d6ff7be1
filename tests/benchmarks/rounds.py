"""Variants measured in turns, and what came of them as a table of medians and ratios."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

#: What one run of a variant measured: name, with its unit, to figure.
Figures = Mapping[str, float]
#: What one round measured: variant to figures.
Round = Mapping[str, Figures]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Variants that were measured in turns.

    Args:
        title: What is compared.
        aim: What the ratios should be, in words.
        variants: Which of those measured; ratios are to the first.
        figures: Which of those measured.
        rounds: What was measured.
    """

    title: str
    aim: str
    variants: Sequence[str]
    figures: Sequence[str]
    rounds: Sequence[Round]

    def values(self, variant: str, figure: str) -> list[float]:
        """The figure of each round."""
        return [each[variant][figure] for each in self.rounds]

    def ratios(self, variant: str, figure: str) -> list[float]:
        """The ratio of each round: what else the machine did in a round it did to all variants."""
        pairs = zip(self.values(variant, figure), self.values(self.variants[0], figure), strict=True)
        return [value / base for value, base in pairs]

    def as_json(self) -> dict[str, Any]:
        """Title, aim, all figures, and the medians of the ratios."""
        variants = {
            variant: {
                figure: {
                    "values": self.values(variant, figure),
                    "median_ratio": median(self.ratios(variant, figure)),
                }
                for figure in self.figures
            }
            for variant in self.variants
        }
        return {"title": self.title, "aim": self.aim, "variants": variants}

    def print(self, console: Console) -> None:
        """Medians, and the medians of the ratios with the lowest and the highest in parentheses."""
        table = Table(title=self.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("")
        for figure in self.figures:
            table.add_column(figure, justify="right", no_wrap=True)
            table.add_column("ratio", justify="right", no_wrap=True)
        for variant in self.variants:
            table.add_row(variant, *(cell for figure in self.figures for cell in self._cells(variant, figure)))
        console.print(table)
        console.print(self.aim)

    def _cells(self, variant: str, figure: str) -> tuple[str, str]:
        value, ratios = median(self.values(variant, figure)), self.ratios(variant, figure)
        shown = f"{value:,.2f}" if figure.endswith("seconds") else f"{value:,.0f}"
        return shown, f"{median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"


def measure_in_turns(
    name: str, variants: Mapping[str, Callable[[], Figures]], *, rounds: int, console: Console
) -> list[Round]:
    """Measure variants in turns, every other round in the opposite order, after one round that does not count.

    Args:
        name: What the lines of progress call it.
        variants: Name to what measures it once.
        rounds: How many rounds count.
        console: Where progress goes.
    """
    measured = []
    for number in range(rounds + 1):
        console.print(f"{name}: {f'round {number} of {rounds}' if number else 'warm-up'}")
        names = list(variants)[:: 1 if number % 2 else -1]
        measured.append({variant: variants[variant]() for variant in names})
    return measured[1:]
