"""The benchmark runs, on sizes that say nothing of speed, and computes ratios as it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.benchmarks.rounds import Comparison, measure_in_turns
from tests.benchmarks.servers import can_limit_cores

ROOT = Path(__file__).parents[2]


def test_every_comparison_is_measured_and_written_as_json(tmp_path):
    figures = tmp_path / "bench.json"
    arguments = ["--rows", "36000", "--rounds", "1", "--s3", "moto", "--json", str(figures)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    comparisons = {each["title"].partition(":")[0]: each["variants"] for each in json.loads(figures.read_text())}
    assert list(comparisons) == [
        "Staged, verified, published load to the same plain INSERT SELECT",
        "Tuned to the server's defaults",
        "Months side by side",
        *(["Three nodes of half a core to one"] if can_limit_cores() else []),
    ]
    # One small block a month, whoever loads it.
    side_by_side = comparisons["Months side by side"]
    assert {name: each["parts written"]["values"] for name, each in side_by_side.items()} == {
        "plain, defaults, one by one": [6],
        "parallel_months=1": [6],
        "parallel_months=2": [6],
        "parallel_months=3": [6],
    }


def test_triggers_of_one_triggerer_are_measured(tmp_path):
    figures = tmp_path / "bench.json"
    arguments = ["--triggers", "20", "--seconds", "2", "--json", str(figures)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shared, alone = json.loads(figures.read_text())
    assert (shared["triggers"], shared["share"], alone["share"]) == (20, True, False)
    assert 0 < shared["queries_per_minute"] < alone["queries_per_minute"]


def test_ratios_are_of_each_round_to_the_first_variant():
    rounds = [{"a": {"seconds": 2.0}, "b": {"seconds": 3.0}}, {"a": {"seconds": 4.0}, "b": {"seconds": 5.0}}]
    comparison = Comparison(title="", aim="", variants=["a", "b"], figures=["seconds"], rounds=rounds)
    assert comparison.ratios("b", "seconds") == [1.5, 1.25]
    assert comparison.as_json()["variants"]["b"]["seconds"] == {"values": [3.0, 5.0], "median_ratio": 1.375}


def test_turns_change_their_order_and_the_first_round_does_not_count():
    from rich.console import Console

    order = []

    def variant(name):
        return lambda: order.append(name) or {"seconds": float(len(order))}

    rounds = measure_in_turns("x", {name: variant(name) for name in "ab"}, rounds=2, console=Console(quiet=True))
    assert order == ["b", "a", "a", "b", "b", "a"]
    assert rounds == [{"a": {"seconds": 3.0}, "b": {"seconds": 4.0}}, {"b": {"seconds": 5.0}, "a": {"seconds": 6.0}}]
