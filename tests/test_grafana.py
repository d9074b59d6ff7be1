"""Dashboard and mapping in docs/grafana speak of the metrics that docs/metrics.md lists, and of all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "metrics.md").read_text(encoding="utf-8")
MAPPINGS = yaml.safe_load((DOCS / "grafana" / "statsd-mapping.yml").read_text(encoding="utf-8"))["mappings"]
DASHBOARD = json.loads((DOCS / "grafana" / "loads.json").read_text(encoding="utf-8"))


def expressions() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def series() -> set[str]:
    """What Prometheus has of the mapped metrics."""
    suffixes = {"histogram": ("_bucket", "_sum", "_count")}
    return {
        mapping["name"] + suffix
        for mapping in MAPPINGS
        for suffix in suffixes.get(mapping.get("observer_type", ""), ("",))
    }


def labels() -> set[str]:
    """Those of the mapping, the tag, and what histograms have."""
    return {label for mapping in MAPPINGS for label in mapping.get("labels", {})} | {"table", "le"}


def test_every_documented_metric_is_mapped_and_no_other() -> None:
    documented = re.findall(r"^\| `(chs3\.[^`]+)` \| ", PAGE, re.MULTILINE)
    patterns = [re.sub(r"<\w+>", "*", f"airflow.{name}") for name in documented]
    assert [mapping["match"] for mapping in MAPPINGS] == patterns


def test_timers_are_histograms_in_seconds() -> None:
    documented = dict(re.findall(r"^\| `(chs3\.[^`]+)` \| (\w+)", PAGE, re.MULTILINE))
    timers = [re.sub(r"<\w+>", "*", f"airflow.{name}") for name, kind in documented.items() if kind == "timer"]
    assert [mapping["match"] for mapping in MAPPINGS if mapping.get("observer_type") == "histogram"] == timers
    assert all(mapping["name"].endswith("_seconds") for mapping in MAPPINGS if mapping["match"] in timers)


@pytest.mark.parametrize("name", [mapping["name"] for mapping in MAPPINGS])
def test_the_page_names_what_the_mapping_makes(name: str) -> None:
    assert f"`{name}" in PAGE


@pytest.mark.parametrize("name", [mapping["name"] for mapping in MAPPINGS])
def test_the_dashboard_shows_every_metric(name: str) -> None:
    assert any(name in expression for expression in expressions())


def test_the_dashboard_asks_for_series_that_there_are() -> None:
    assert {name for expression in expressions() for name in re.findall(r"chs3_\w+", expression)} <= series()


def test_the_dashboard_asks_for_labels_that_there_are() -> None:
    selectors = [each for expression in expressions() for each in re.findall(r"\{([^}]*)\}", expression)]
    asked = {label for selector in selectors for label in re.findall(r"(\w+)=", selector)}
    groups = [each for expression in expressions() for each in re.findall(r"by \(([^)]*)\)", expression)]
    grouped = {label.strip() for group in groups for label in group.split(",")}
    assert asked | grouped <= labels()


def _values(node: Any, name: str) -> Iterator[Any]:
    if isinstance(node, dict):
        yield from (value for key, value in node.items() if key == name)
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from _values(each, name)


def test_the_dashboard_asks_for_its_prometheus_when_it_is_imported() -> None:
    (asked,) = DASHBOARD["__inputs"]
    assert {json.dumps(value) for value in _values(DASHBOARD, "datasource")} == {
        json.dumps({"type": "prometheus", "uid": f"${{{asked['name']}}}"})
    }


def test_the_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
