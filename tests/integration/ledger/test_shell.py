"""`python -m airflow_provider_chs3` against real ledgers: tables, JSON, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import PERIOD, Lake

TRIPS = Trips(rows_per_period=600, files_per_period=3)
ORPHAN = "chs3_0123456789abcdef_0123456789abcdef"

#: Exit code, stdout, stderr.
Shell = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shell(trips_lake: Lake, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Runs a command about the lake's table."""

    def run(command: str, *arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([command, *where(trips_lake, command), *arguments])
        return code, *capsys.readouterr()

    return run


def where(lake: Lake, command: str) -> list[str]:
    given = ["--database", lake.database, "--cluster", lake.cluster.name]
    if command != "clean":
        given += ["--table", lake.table]
    if command in ("plan", "adopt"):
        given += ["--key", f"s3://{lake.bucket}/trips/{{YYYY-MM}}/"]
    return given


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("   ") if cell.strip()]


class TestErrors:
    @pytest.mark.parametrize(
        "given",
        [{"table": "nope"}, {"key": "s3://no-such-lake/trips/{YYYY-MM}/"}, {"period": "2026-13"}],
        ids=lambda given: next(iter(given)),
    )
    def test_they_are_the_sentences_of_the_operators(
        self, trips_lake: Lake, capsys: pytest.CaptureFixture[str], given: dict[str, str]
    ) -> None:
        trips_lake.upload(TRIPS)
        key = f"s3://{trips_lake.bucket}/trips/{{YYYY-MM}}/"
        arguments = {"table": trips_lake.table, "key": key, "period": PERIOD, "database": trips_lake.database} | given
        with pytest.raises(AirflowFailException) as told:
            trips_lake.load(bucket=None, **arguments)
        capsys.readouterr()
        code = main(["plan", *(part for name, value in arguments.items() for part in (f"--{name}", value))])
        assert (code, capsys.readouterr().err.strip()) == (2, f"plan: {told.value}")


class TestObjects:
    def test_each_load_of_an_object_is_listed_with_what_became_of_it(self, trips_lake: Lake, shell: Shell) -> None:
        trips_lake.upload(TRIPS)
        first = trips_lake.load()
        overwritten = trips_lake.upload(Trips(seed=2, rows_per_period=300, files_per_period=1))
        second = trips_lake.load()
        code, out, _ = shell("ledger", "--period", PERIOD, "--objects")
        listed = [cells(line) for line in out.splitlines()[2:]]
        loads = {path: [tuple(each[3:4] + each[5:]) for each in listed if each[1] == path] for _, path, *_ in listed}
        again, once = ("200", first["attempt"], "no"), ("200", second["attempt"], "yes")
        assert (code, len(loads)) == (0, 3)
        assert loads.pop(f"{trips_lake.bucket}/{overwritten[0]}") == [again, ("300", second["attempt"], "yes")]
        assert list(loads.values()) == [[again, once]] * 2


def test_a_plan_ends_with_1_for_periods_to_load_and_with_2_without_periods(trips_lake: Lake, shell: Shell) -> None:
    trips_lake.upload(TRIPS)
    code, out, _ = shell("plan", "--all-periods")
    assert (code, cells(out.splitlines()[-1])[:4]) == (1, [PERIOD, "load", "never loaded", "3"])
    code, out, err = shell("plan")
    assert (code, out) == (2, "")
    assert "Name the periods" in err


class TestLedger:
    @pytest.mark.three_nodes
    def test_as_published_ends_with_0_and_json_or_yaml_is_all_that_stdout_gets(
        self, trips_lake: Lake, shell: Shell
    ) -> None:
        trips_lake.upload(TRIPS)
        trips_lake.load()
        code, out, _ = shell("plan", "--period", PERIOD)
        assert (code, cells(out.splitlines()[-1])[:3]) == (0, [PERIOD, "leave", "as published"])
        code, out, _ = shell("ledger")
        header, _, row = out.splitlines()
        assert header.split()[:4] == ["period", "partition", "state", "rows"]
        assert (code, cells(row)[:4]) == (0, [PERIOD, "202610", "as published", "600"])
        code, out, _ = shell("ledger", "--output=json", "--verbose")
        (period,) = json.loads(out)
        assert (code, period["period"], period["rows"]) == (0, PERIOD, 600)
        assert yaml.safe_load(shell("ledger", "-o", "yaml")[1]) == [period]
        code, out, _ = shell("ledger", "--objects", "--output=json")
        found = json.loads(out)
        assert (code, len(found)) == (0, 3)
        assert {(each["period"], each["rows"], each["is_current"]) for each in found} == {(PERIOD, 200, True)}
        name = f"{trips_lake.database}.{trips_lake.table}"
        trips_lake.on_node(0, f"INSERT INTO {name} (trip_id, pickup_at) VALUES (1, '{PERIOD}-05 00:00:00')")
        code, out, _ = shell("ledger")
        assert code == 1
        assert "the partition was changed since it was published (" in out

    @pytest.mark.thorough
    def test_a_process_of_its_own_prints_nothing_else_on_stdout(self, trips_lake: Lake) -> None:
        trips_lake.upload(TRIPS)
        command = [sys.executable, "-m", "airflow_provider_chs3", "plan", "--all-periods", "--output=json", "--verbose"]
        done = subprocess.run(
            [*command, *where(trips_lake, "plan")], capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 1, done.stderr
        assert [period["period"] for period in json.loads(done.stdout)] == [PERIOD]
        assert "never loaded" in done.stderr

    @pytest.mark.thorough
    def test_a_reader_that_has_seen_enough_is_no_error(self, trips_lake: Lake) -> None:
        command = [sys.executable, "-m", "airflow_provider_chs3", "ledger", *where(trips_lake, "ledger")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stdout.close()
            assert process.stderr.read() == ""

    def test_what_is_not_there_ends_with_2_and_a_period_that_nobody_knows_with_1(
        self, trips_lake: Lake, shell: Shell
    ) -> None:
        assert shell("ledger")[:2] == (0, "The ledger has no periods of this table.\n")
        assert shell("ledger", "--period", PERIOD)[:2] == (1, "The ledger has no such period.\n")
        code, _, err = shell("ledger", "--conn-id", "nowhere")
        assert code == 2
        assert "nowhere" in err
        trips_lake.table = "nowhere"
        code, out, err = shell("ledger")
        assert (code, out) == (2, "")
        assert ".nowhere does not exist" in err


class TestUpkeep:
    @pytest.mark.thorough
    def test_adopt_forget_and_adopt_again(self, trips_lake: Lake, shell: Shell) -> None:
        trips_lake.upload(TRIPS)
        code, out, _ = shell("adopt", "--period", PERIOD)
        assert (code, cells(out.splitlines()[-1])[:2]) == (1, [PERIOD, "refused"])
        assert "its 3 objects hold 600 rows, " in out
        trips_lake.insert_objects()
        assert shell("ledger")[0] == 1
        assert shell("adopt", "--all-periods")[0] == 0
        assert shell("ledger")[0] == 0
        code, out, _ = shell("forget", "--all-periods", "--output=json")
        assert (code, json.loads(out)) == (0, [{"period": PERIOD, "was_known": True, "rows": 600}])
        assert shell("adopt", "--period", PERIOD)[0] == 0

    @pytest.mark.three_nodes
    def test_staging_that_would_be_dropped_ends_with_1_and_its_end_with_0(self, trips_lake: Lake, shell: Shell) -> None:
        trips_lake.on_node(1, f"CREATE TABLE {trips_lake.database}.{ORPHAN} (a Int8) ENGINE = MergeTree ORDER BY a")
        assert shell("clean")[:2] == (0, "No staging tables are that old.\n")
        code, out, _ = shell("clean", "--older-than-hours", "0", "--dry-run", "--output=json")
        (old,) = json.loads(out)
        assert (code, old["name"], old["was_dropped"]) == (1, ORPHAN, False)
        code, out, _ = shell("clean", "--older-than-hours", "0")
        assert (code, cells(out.splitlines()[-1])[:2]) == (0, [ORPHAN, "dropped"])
