"""Commands show on a terminal how far they are, in lines elsewhere, and to a program nothing."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.progress import Progress

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import Lake, lake_on
from tests.support.terminal import on_terminal

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster
    from airflow_provider_chs3.testbed.s3 import S3Endpoint

TRIPS = Trips(rows_per_period=300, files_per_period=3)
PERIODS = ("2026-08", "2026-09", "2026-10")


@pytest.fixture(scope="module")
def loaded_lake(cluster_of_one: Cluster, chs3_s3: S3Endpoint) -> Iterator[Lake]:
    """A lake whose table holds three periods."""
    bucket = f"chs3-{uuid.uuid4().hex[:12]}"
    chs3_s3.client().create_bucket(Bucket=bucket)
    with pytest.MonkeyPatch.context() as patch, lake_on(cluster_of_one, chs3_s3, bucket, patch) as lake:
        lake.create_table()
        for period in PERIODS:
            lake.upload(TRIPS, period)
        lake.load(period=None, periods=list(PERIODS))
        yield lake


@pytest.fixture
def loads(loaded_lake: Lake, tmp_path: Path) -> str:
    """A file of two loads of its table."""
    where = {"database": loaded_lake.database, "cluster": loaded_lake.cluster.name, "bucket": loaded_lake.bucket}
    file = tmp_path / "loads.yaml"
    loads = [{"name": name, "table": loaded_lake.table, "key": "trips/{YYYY-MM}/"} for name in ("trips", "[again]")]
    file.write_text(json.dumps({"defaults": where, "loads": loads}), encoding="utf-8")
    return str(file)


@pytest.fixture
def every_change_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a terminal shows what is done ten times in a second."""
    monkeypatch.setattr(Progress, "update", partialmethod(Progress.update, refresh=True))


@pytest.mark.usefixtures("every_change_is_drawn")
class TestOnATerminal:
    def test_bars_say_what_is_done_of_how_much_and_how_long_it_takes(
        self, loads: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with on_terminal(monkeypatch, "stdout", "stderr") as terminal:
            assert main(["prove", "--loads", loads, "--all-periods"]) == 0
        shown = "\n".join(terminal.seen)
        assert re.search(r"^trips +━+ 0 of 2 loads +0:00:0\d$", shown, re.MULTILINE)
        assert re.search(r"^\[again\] +━+[╸╺]━+ 1 of 2 loads +0:00:\d\d left$", shown, re.MULTILINE)
        assert re.search(r"^\S.* ━+ 9 listed +0:00:0\d$", shown, re.MULTILINE)
        assert re.search(r"^Read.* ━+[╸╺]━+ (19|38)\.\d KiB of 58\.4 KiB 0:00:\d\d left$", shown, re.MULTILINE)
        assert max(map(len, terminal.seen)) <= 100

    def test_lines_and_the_result_are_all_that_stays(self, loads: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with on_terminal(monkeypatch, "stdout", "stderr") as terminal:
            assert main(["prove", "--loads", loads, "--period", "2026-10"]) == 0
        assert terminal.text.splitlines() == [
            "trips: 0 of 1 period not equal",
            "[again]: 0 of 1 period not equal",
            "",
            "load      period    status   rows   of the objects   reason",
            "───────   ───────   ──────   ────   ──────────────   ────────",
            "trips     2026-10   equal     300              300   300 rows",
            "[again]   2026-10   equal     300              300   300 rows",
        ]

    def test_a_result_that_goes_elsewhere_is_as_ever(
        self, loads: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with on_terminal(monkeypatch, "stderr") as terminal:
            assert main(["plan", "--loads", loads, "--all-periods"]) == 0
        assert capsys.readouterr().out.startswith("trips: 0 of 3 periods to load\n[again]: 0 of 3 periods to load\n\n")
        assert any(line.startswith("[again] ") and " 1 of 2 loads " in line for line in terminal.seen)
        assert terminal.text == ""

    def test_an_error_is_read_above_them(
        self, loads: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path(loads).write_text(Path(loads).read_text().replace('"trips", "key"', '"gone", "key"'), encoding="utf-8")
        with on_terminal(monkeypatch, "stderr") as terminal:
            assert main(["plan", "--loads", loads, "--all-periods"]) == 2
        first, second = re.findall(r"^plan: (\S+): .* does not exist", terminal.text, re.MULTILINE)
        assert (first, second, capsys.readouterr().out.strip()) == ("trips", "[again]", "")

    def test_a_doctor_counts_its_checks(
        self, loads: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with on_terminal(monkeypatch, "stderr") as terminal:
            assert main(["doctor", "--loads", loads, "trips", "--period", "2026-10"]) == 0
        shown = "\n".join(terminal.seen)
        assert re.search(r"━+ ([4-8]|11) of 12 checks +0:00:\d\d", shown)
        assert " loads " not in shown
        capsys.readouterr()
        assert main(["doctor", "--loads", loads, "trips", "--output", "json"]) == 0
        (diagnosis,) = json.loads(capsys.readouterr().out)
        assert len(diagnosis["checks"]) == 12


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("where", ["a pipe", "a terminal, verbosely", "a program"])
def test_elsewhere_it_is_a_line_as_each_load_is_done(
    where: str, loads: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    streams, further = {
        "a pipe": ((), ()),
        "a terminal, verbosely": (("stderr",), ("--verbose",)),
        "a program": (("stderr",), ("--output", "json")),
    }[where]
    with on_terminal(monkeypatch, *streams) as terminal:
        assert main(["plan", "--loads", loads, "--period", "2026-10", *further]) == 0
    out, err = capsys.readouterr()
    assert "━" not in terminal.text
    if where == "a program":
        assert [planned["load"] for planned in json.loads(out)] == ["trips", "[again]"]
        assert (terminal.seen, terminal.text, err) == ([], "", "")
    else:
        assert out.startswith("trips: 0 of 1 period to load\n[again]: 0 of 1 period to load\n\n")
