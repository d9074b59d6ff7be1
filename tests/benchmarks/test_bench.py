"""The suites run, on sizes that say nothing of speed; ratios, verdicts and pages are made as they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import pytest
from rich.console import Console

from tests.benchmarks import report, servers
from tests.benchmarks.page_server import ANSWER, FIRST, FIRST_STATEMENTS, STATEMENTS
from tests.benchmarks.rounds import Comparison, Gate, Table, Verdict, measure_in_turns
from tests.benchmarks.suite import ROOT

ROUNDS = [{"a": {"seconds": 2.0}, "b": {"seconds": 3.0}}, {"a": {"seconds": 4.0}, "b": {"seconds": 5.0}}]
MADE_BY = {
    "command": "./dev bench x",
    "at": "2026-01-31T12:00:00+00:00",
    "seconds": 61,
    "commit": "0123456789",
    "machine": {"cores": 2, "memory_gib": 24, "processor": "x86_64"},
    "versions": {"python": "3.12"},
}


def bench(*arguments: str) -> None:
    """Run `./dev bench`."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


class TestSuites:
    @pytest.mark.thorough
    def test_ways_plans_parses_and_backfills_are_measured(self, tmp_path):
        suites = ["alternatives", "backfill", "parsing", "planning"]
        bench(*suites, "--quick", "--scale", "0.01", "--s3", "moto", "--report", str(tmp_path))
        results = {name: json.loads((tmp_path / "raw" / f"{name}.json").read_text())["results"] for name in suites}
        *ways, struck, between = results["alternatives"]
        assert all(way["variants"]["this package"]["worker's CPU seconds"]["median"] > 0 for way in ways)
        ours = [(row["nodes"], row["after the retry"]) for row in struck["rows"] if row["load"] == "this package"]
        assert ours == [("1", "exact"), ("3", "exact")]
        assert (between["rows"][0]["way"], between["rows"][0]["and after it"]) == ("this package", "exact")
        (backfill,) = results["backfill"]
        assert all(each["queries' MiB at the same time"]["median"] > 0 for each in backfill["variants"].values())
        imports, files, further = results["parsing"]
        assert all(each["milliseconds"]["median"] > 0 for each in imports["variants"].values())
        assert [row["DAG file"] for row in files["rows"]] == sorted(path.name for path in (ROOT / "dags").glob("*.py"))
        twenty = ["loads of a file", "scheduled_load", "S3ToRedshiftOperator"]
        assert [row["twenty of"] for row in further["rows"]] == twenty
        (plans,) = results["planning"]
        assert [(row["objects"], row["requests to S3"]) for row in plans["rows"]] == [("200", 1), ("1,000", 1)]
        assert "met: unchanged periods are found with one query to each node" in (tmp_path / "planning.md").read_text()

    @pytest.mark.thorough
    def test_listings_are_measured_near_and_far(self, tmp_path):
        bench("listing", "--quick", "--scale", "0.2", "--report", str(tmp_path))
        (table,) = json.loads((tmp_path / "raw" / "listing.json").read_text())["results"]
        assert [(row["objects"], row["ms away"]) for row in table["rows"]][::2] == [
            ("2,000", "0"),
            ("20,000", "0"),
            ("2,000", "100"),
            ("20,000", "100"),
        ]
        assert all(row["ratio to plain boto3"] < 1 for row in table["rows"] if row["way"] == "this package")

    @pytest.mark.thorough
    def test_triggers_that_share_a_poll_are_measured_beside_those_that_do_not(self, tmp_path):
        bench("triggers", "--scale", "0.001", "--report", str(tmp_path))
        (table,) = json.loads((tmp_path / "raw" / "triggers.json").read_text())["results"]
        assert [(row["sensors"], row["polls"]) for row in table["rows"]] == [("1", "one for all"), ("1", "one each")]
        assert all(row["CPU seconds a minute"] > 0 for row in table["rows"])

    @pytest.mark.thorough
    def test_the_page_is_measured_beside_its_statements(self, tmp_path):
        options = ["--quick", "--scale", "0.05", "--rounds", "1", "--s3", "moto"]
        bench("page", *options, "--report", str(tmp_path))
        (compared,) = json.loads((tmp_path / "raw" / "page.json").read_text())["results"]
        assert list(compared["variants"]) == [FIRST_STATEMENTS, FIRST, STATEMENTS, ANSWER]
        assert all(each["seconds"]["median"] > 0 for each in compared["variants"].values())

    @pytest.mark.thorough
    def test_sources_are_measured_beside_plain_inserts(self, tmp_path):
        options = ["--quick", "--scale", "0.01", "--rounds", "1", "--s3", "moto"]
        bench("sources", *options, "--report", str(tmp_path))
        table, *_ = json.loads((tmp_path / "raw" / "sources.json").read_text())["results"]
        # Suites whose programs a machine lacks are left out; these need none.
        assert {row["source"] for row in table["rows"]} >= {"S3, Parquet", "Iceberg", "Delta (on moto)"}
        assert all(float(row["this package, seconds"]) > 0 for row in table["rows"])

    @pytest.mark.thorough
    def test_the_proof_that_objects_are_whole_is_measured_beside_their_insert(self, tmp_path):
        options = ["--quick", "--scale", "0.01", "--rounds", "1", "--s3", "moto"]
        bench("proof", *options, "--report", str(tmp_path))
        (table,) = json.loads((tmp_path / "raw" / "proof.json").read_text())["results"]
        assert [row["objects"] for row in table["rows"]] == ["1", "1", "16", "16"]
        assert all(row["proof to insert, ratio"] > 0 for row in table["rows"])

    @pytest.mark.thorough
    def test_suites_of_loads_measure_every_variant(self, tmp_path):
        # `sizes` is made of the same pieces.
        names = ["ladder", "scaling", "limit", "formats", "checks", "distance"]
        bench(*names, "--quick", "--scale", "0.001", "--rounds", "1", "--s3", "moto", "--report", str(tmp_path))
        suites = {name: json.loads((tmp_path / "raw" / f"{name}.json").read_text())["results"] for name in names}
        measured = {
            name: [result["variants"] for result in results if "variants" in result] for name, results in suites.items()
        }
        assert {name: [len(variants) for variants in each] for name, each in measured.items()} == {
            "ladder": [9, 9, 8, 8],
            "scaling": [2, 2],
            "limit": [2, 3],
            "formats": [10, 8],
            "checks": [2] * 11,
            "distance": [2, 2, 2],
        }
        assert all(variant["seconds"]["median"] > 0 for each in measured["formats"] for variant in each.values())


@pytest.mark.skipif(not servers.is_toxiproxy_there(), reason="takes Toxiproxy, which `./dev bench distance` builds")
def test_s3_far_away_answers_that_much_later(chs3_s3):
    def head_seconds(endpoint):
        client = endpoint.client()
        client.list_buckets()
        start = time.monotonic()
        client.list_buckets()
        return time.monotonic() - start

    near = head_seconds(chs3_s3)
    with servers.far_away(chs3_s3, servers.Distance(first_byte_ms=500, connection_mb_per_second=85)) as endpoint:
        assert near + 0.25 < head_seconds(endpoint)


class TestRounds:
    def test_ratios_are_of_each_round_to_the_first_variant(self):
        comparison = Comparison(title="", variants=["a", "b"], figures=["seconds"], rounds=ROUNDS)
        assert comparison.ratios("b", "seconds") == [1.5, 1.25]
        assert comparison.as_json()["variants"]["b"]["seconds"] == {
            "values": [3.0, 5.0],
            "median": 4.0,
            "ratios": [1.5, 1.25],
        }

    def test_turns_change_their_order_and_the_first_round_does_not_count(self):
        order = []

        def variant(name):
            return lambda: order.append(name) or {"seconds": float(len(order))}

        rounds = measure_in_turns("x", {name: variant(name) for name in "ab"}, rounds=2, console=Console(quiet=True))
        assert order == ["b", "a", "a", "b", "b", "a"]
        assert rounds == [
            {"a": {"seconds": 3.0}, "b": {"seconds": 4.0}},
            {"b": {"seconds": 5.0}, "a": {"seconds": 6.0}},
        ]

    @pytest.mark.parametrize(("bound", "is_met"), [(1.4, True), (1.3, False)])
    def test_a_gate_is_met_by_the_median_of_the_ratios(self, bound, is_met):
        gate = Gate(variant="b", figure="seconds", at_most=bound)
        comparison = Comparison(title="", variants=["a", "b"], figures=["seconds"], rounds=ROUNDS, gates=[gate])
        (verdict,) = comparison.verdicts()
        assert (verdict.found, verdict.is_met) == ("1.38", is_met)


class TestReport:
    def test_a_page_has_each_table_its_chart_its_verdicts_and_how_it_was_made(self, tmp_path):
        results = [
            Comparison(
                title="Two ways",
                variants=["a", "b"],
                figures=["seconds"],
                rounds=ROUNDS,
                gates=[Gate(variant="b", figure="seconds", at_most=1)],
                beside={"others": {"b": "2 | 3"}},
            ),
            Table(
                title="Alone",
                rows=[{"what": "x", "rows": 1234.0}],
                verdicts=[Verdict(claim="c", found="f", is_met=True)],
            ),
        ]
        measured = {"suite": "x", "title": "X", "made_by": MADE_BY, "results": [result.as_json() for result in results]}
        report.write(tmp_path, measured)
        page = (tmp_path / "x.md").read_text()
        assert "| b | 4.00 | 1.38 (1.25–1.50) | 2 \\| 3 |" in page
        assert "- MISSED: b to a, seconds: at most 1; it is 1.38" in page
        assert "| x | 1,234 |" in page
        assert "- met: c; it is f" in page
        assert (
            "`./dev bench x` on 2026-01-31 at commit 0123456789, 61 s, 2 cores (x86_64) and 24 GiB; python 3.12."
            in page
        )
        assert re.findall(r"!\[.*\]\((.*)\)", page) == ["x-1.svg"]
        assert "healthy" not in (drawn := (tmp_path / "x-1.svg").read_text())
        assert ">seconds<" in drawn

    def test_the_pages_are_what_the_figures_beside_them_come_to(self):
        pages = {path.stem: path.read_text() for path in report.FOLDER.glob("*.md")}
        raw = {path.stem: json.loads(path.read_text()) for path in (report.FOLDER / "raw").glob("*.json")}
        assert pages == {name: report.page(measured) for name, measured in raw.items()}
