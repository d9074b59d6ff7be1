"""The records of long runs of nights, and their sums."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tests.nights.record import Record, table_of

OF: dict[str, Any] = {"servers": "2 replicated", "kind": "all", "run": 7}


def test_tables_of_a_run_add_up_by_their_servers(tmp_path: Path) -> None:
    record = Record(tmp_path / "results")
    seen = Counter({"2 files added to 2026-08": 1, "1 files added to 2026-09": 2, "a replica away": 1, "increment": 5})
    record.add(seen=seen, wrong=[], nights=15, server="25.8", engine="plain", span="day", seed=7000, **OF)
    record.add(
        seen=seen, wrong=["night 3: a row"], nights=3, server="25.8", engine="summing", span="month", seed=7001, **OF
    )
    assert [line["nights"] for line in record.of(**OF)] == [15, 3]
    assert record.of(**{**OF, "kind": "power"}) == []
    heads, _, row = (
        [each.strip() for each in line.strip("|").split("|")] for line in table_of(record.current()).splitlines()
    )
    told = dict(zip(heads, row, strict=True))
    assert told["servers"] == "25.8, 2 replicated"
    assert (told["nights"], told["different"], told["replica away"], told["increments"]) == ("18", "1", "2", "10")
    assert (told["day"], told["month"], told["week"]) == ("15", "3", "0")


def test_results_of_a_load_with_other_steps_do_not_count(tmp_path: Path) -> None:
    record = Record(tmp_path)
    record.add(seen=Counter(), wrong=[], nights=15, server="25.8", engine="plain", seed=7000, **OF)
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text(encoding="utf-8").replace('"steps": "', '"steps": "of-then-'), encoding="utf-8")
    assert record.current() == []
