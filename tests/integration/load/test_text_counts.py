"""Rows of text files are counted by reading the files again: the count is that of the rows that a load gets of them."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.lake import PERIOD, Lake

#: Ending of the keys → files, each with what it is and its rows.
FILES = {
    "csv": [
        (b"at,a\n2026-10-01 00:00:00,1\n2026-10-02 00:00:00,2\n", "plain", 2),
        (b"at,a\n2026-10-01 00:00:00,1\n2026-10-02 00:00:00,2", "without a last line end", 2),
        (b"at,a\r\n2026-10-01 00:00:00,1\r\n2026-10-02 00:00:00,2\r\n", "of Windows", 2),
        (b'at,a\n2026-10-01 00:00:00,"1"\n2026-10-02 00:00:00,"2\n,3"\n', "lines in a field", 2),
        (b"at,a\n", "names alone", 0),
    ],
    "tsv": [
        (b"at\ta\n2026-10-01 00:00:00\t1\n2026-10-02 00:00:00\t2\\n\n", "plain", 2),
        (b"at\ta\n2026-10-01 00:00:00\t1\n2026-10-02 00:00:00\t2", "without a last line end", 2),
        (b"at\ta", "names alone", 0),
    ],
    "json": [
        (b'{"at": "2026-10-01 00:00:00", "a": "1"}\n\n {"at": "2026-10-02 00:00:00", "a": "{\\n}"}', "empty lines", 2),
        (b'{"at": "2026-10-01 00:00:00", "a": "1"}{"at": "2026-10-02 00:00:00", "a": "2"}', "on one line", 2),
        (b'[{"at": "2026-10-01 00:00:00", "a": "1"},\n{"at": "2026-10-02 00:00:00", "a": "2"}]\n', "in brackets", 2),
        (b'{"at": "2026-10-01 00:00:00",\n "a": "1"}\n', "over lines", 1),
    ],
}


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("ending", FILES)
def test_rows_are_those_of_the_files(lake: Lake, ending: str) -> None:
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips (at DateTime('UTC'), a String) "
        "ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY at"
    )
    for body, what, _ in FILES[ending]:
        lake.put(f"trips/{PERIOD}/{what.replace(' ', '-')}.{ending}", body)
    assert lake.load()["rows"] == sum(rows for *_, rows in FILES[ending])


def test_a_period_of_names_alone_is_published_without_rows(lake: Lake) -> None:
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips (at DateTime('UTC'), a String) "
        "ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY at"
    )
    lake.put(f"trips/{PERIOD}/a.csv", b"at,a\n")
    assert (lake.load()["status"], lake.load()["status"]) == ("published", "unchanged")


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("is_selected", [True, False])
@pytest.mark.parametrize(
    ("ending", "full", "empty", "file_format"),
    [
        ("json.gz", b'{"at": "2026-10-01 00:00:00", "a": "1"}\n', b"", None),
        ("json.gz", b'{"at": "2026-10-01 00:00:00", "a": "1"}\n', b" \r\n\n", None),
        ("csv.gz", b"at,a\n2026-10-01 00:00:00,1\n", b"", None),
        ("gz", b"2026-10-01 00:00:00,1\n", b"", "CSV"),
    ],
)
def test_a_compressed_file_of_nothing_has_no_rows(
    lake: Lake, ending: str, full: bytes, empty: bytes, file_format: str | None, is_selected: bool
) -> None:
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips (at DateTime('UTC'), a String) "
        "ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY at"
    )
    names = ("c1", "c2") if file_format else ("at", "a")
    arguments: dict[str, Any] = {"select": dict(zip(("at", "a"), names, strict=True))} if is_selected else {}
    arguments |= {"file_format": file_format} if file_format else {}
    for number, body in enumerate((empty, full, empty)):
        lake.put(f"trips/{PERIOD}/{number}.{ending}", gzip.compress(body))
        assert lake.load(**arguments)["status"] == "published"
    assert lake.on_node(0, f"SELECT at, a FROM cluster('{lake.cluster.name}', {lake.database}, trips)") == [
        (datetime(2026, 10, 1, tzinfo=UTC), "1")
    ]
