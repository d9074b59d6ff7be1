"""`python -m tests.benchmarks.report [FOLDER]`: pages and charts of what `./dev bench --report FOLDER` measured."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.rounds import Verdict, cells_of

FOLDER = Path(__file__).parents[2] / "docs" / "benchmarks"
_GREY, _BLUE = "#9aa0a6", "#2f6fdb"


def write(folder: Path, measured: Mapping[str, Any]) -> None:
    """Write a suite's figures as JSON, as a page of Markdown, and as charts."""
    (folder / "raw").mkdir(parents=True, exist_ok=True)
    text = json.dumps(measured, indent=1, ensure_ascii=False)
    (folder / "raw" / f"{measured['suite']}.json").write_text(text + "\n", encoding="utf-8")
    (folder / f"{measured['suite']}.md").write_text(page(measured), encoding="utf-8")
    for name, result in _charts(measured):
        _draw(folder / name, result)


def page(measured: Mapping[str, Any]) -> str:
    """A suite's page: each result as a table, with its chart and whether it is as it should be; how it was made."""
    charts = {id(result): name for name, result in _charts(measured)}
    blocks = [block for result in measured["results"] for block in _blocks(result, charts.get(id(result)))]
    return "\n\n".join([*blocks, _made_by(measured)]) + "\n"


def _blocks(result: Mapping[str, Any], chart: str | None) -> Iterator[str]:
    heads, rows = cells_of(result)
    yield f"**{result['title']}**"
    rule = ["---", *("---:" for _ in heads[1:])]
    yield "\n".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in [heads, rule, *rows]
    )
    if chart:
        yield f"![Chart of the table above: {result['title']}]({chart})"
    if result["aim"]:
        yield result["aim"]
    if result["verdicts"]:
        yield "\n".join(f"- {Verdict(**each).line()}" for each in result["verdicts"])


def _made_by(measured: Mapping[str, Any]) -> str:
    made_by, machine = measured["made_by"], measured["made_by"]["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in made_by["versions"].items())
    return (
        f"`{made_by['command']}` on {made_by['at'][:10]} at commit {made_by['commit']}, {made_by['seconds']:,} s, "
        f"{machine['cores']} cores ({machine['processor']}) and {machine['memory_gib']} GiB; {versions}. "
        f"All figures: [{measured['suite']}.json](raw/{measured['suite']}.json)"
    )


def _charts(measured: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each comparison, with the name of its chart."""
    for number, result in enumerate(measured["results"], start=1):
        if "variants" in result:
            yield f"{measured['suite']}-{number}.svg", result


def _draw(file: Path, result: Mapping[str, Any]) -> None:
    """Bars of the medians, with lines from the lowest to the highest; one panel a figure."""
    import matplotlib

    matplotlib.use("svg")
    # The same figures make the same file, and text stays text.
    matplotlib.rcParams.update({"svg.hashsalt": file.stem, "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    variants = result["variants"]
    figures = list(next(iter(variants.values())))
    size = (3.2 + 2.6 * len(figures), 0.7 + 0.34 * len(variants))
    drawing, panels = pyplot.subplots(1, len(figures), sharey=True, squeeze=False, figsize=size, layout="constrained")
    for panel, figure in zip(panels[0], figures, strict=True):
        values = [variants[variant][figure]["values"] for variant in variants]
        medians = [median(value) for value in values]
        spread = [[mid - min(each), max(each) - mid] for mid, each in zip(medians, values, strict=True)]
        colors = [_GREY, *[_BLUE] * (len(variants) - 1)]
        panel.barh(list(variants), medians, xerr=list(zip(*spread, strict=True)), color=colors, ecolor="#444444")
        panel.set_xlabel(figure)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].invert_yaxis()
    drawing.savefig(file, metadata={"Date": None})
    pyplot.close(drawing)


def main() -> None:
    """Make the pages and charts of a folder anew from its JSON."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for file in sorted((folder / "raw").glob("*.json")):
        write(folder, json.loads(file.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
