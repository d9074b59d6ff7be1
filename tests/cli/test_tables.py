"""Tables that people read."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from airflow_provider_chs3.cli.tables import age, rendered, size


def test_text_stands_to_the_left_and_numbers_to_the_right() -> None:
    assert rendered(["period", "rows"], [["2026-01", 1_234_567], ["2026-02", None]]).splitlines() == [
        "period         rows",
        "───────   ─────────",
        "2026-01   1,234,567",
        "2026-02",
    ]


def test_a_line_is_a_line_whatever_a_name_holds() -> None:
    assert rendered(["name"], [["a\nb\t c"]]).splitlines()[-1] == "a b c"


def test_sizes_and_ages_are_in_units_that_people_read() -> None:
    assert [size(value) for value in (0, 1023, 1536, 5 * 1024**4)] == ["0 B", "1023 B", "1.5 KiB", "5.0 TiB"]
    assert [age(value) for value in (59, 60, 90_000)] == ["59 s", "0 h 1 min", "25 h 0 min"]


def test_the_widest_text_is_wrapped_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "its definition changed since it was published: column 'color' was added to the table"
    rows = [["2026-09", "load", reason, 3], ["2026-10", "leave", "as published", 4]]
    as_file = rendered(["period", "to do", "reason", "objects"], rows)
    assert max(map(len, as_file.splitlines())) == 112
    monkeypatch.setattr(sys, "__stdout__", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setenv("COLUMNS", "60")
    assert rendered(["period", "to do", "reason", "objects"], rows).splitlines() == [
        "period    to do   reason                             objects",
        "───────   ─────   ────────────────────────────────   ───────",
        "2026-09   load    its definition changed since it          3",
        "                  was published: column 'color'",
        "                  was added to the table",
        "2026-10   leave   as published                             4",
    ]
