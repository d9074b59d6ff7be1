"""Files of HDFS that somebody writes to, or moves, while they are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from airflow_provider_chs3.exceptions import NotReadyError
from tests.faults.strikes import Strikes, strikes
from tests.sources.changing import ChangingMonth, Kind, file_of
from tests.sources.hdfs import HdfsServer
from tests.sources.store_lake import StoreLake

__all__ = ["strikes"]

pytestmark = pytest.mark.parametrize("store_lake", ["hdfs"], indirect=True)

#: More than a packet and than a block of tests, and cut off in the middle of a value.
_TORN = b"".join(file_of("jsonl", 1, version=7) for _ in range(60))[:-30]
_REST = b"".join(file_of("jsonl", 1, version=7) for _ in range(60))[-30:]


class Writer:
    """Somebody who opens files of the month, and writes to them until the end."""

    def __init__(self, month: ChangingMonth) -> None:
        self.server: HdfsServer = month.lake.objects.server
        self.folder = f"/{month.lake.place}"
        self.month = month
        self._files = ExitStack()

    def open(self, number: int, *, is_new: bool = False) -> None:
        path = f"{self.folder}/{self.month.key(number)}"
        self._files.enter_context(self.server.open_for_writing(path, _TORN, _REST, is_new=is_new))

    def close(self) -> None:
        self._files.close()


@pytest.fixture
def writer(store_lake: StoreLake, request: pytest.FixtureRequest) -> Iterator[Writer]:
    writer = Writer(ChangingMonth(store_lake, "jsonl"))
    yield writer
    writer.close()


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("when", ["at first", "before the insert"])
def test_text_that_is_open_for_writing_is_not_loaded_until_it_is_closed(
    store_lake: StoreLake, strikes: Strikes, writer: Writer, when: str, is_new: bool
) -> None:
    number = 5 if is_new else 1
    if when == "at first":
        writer.open(number, is_new=is_new)
    else:
        strikes.before("Insert", lambda: writer.open(number, is_new=is_new))
    with pytest.raises(NotReadyError, match=rf"1 file of the month is open for writing \(.*{writer.month.key(number)}"):
        writer.month.load()
    assert (store_lake.rows(), store_lake.left_behind()) == (0, [])
    writer.close()
    strikes.reset()
    assert writer.month.load() == "published"
    assert store_lake.facts() == writer.month.facts()


def test_of_parquet_that_is_open_for_writing_what_is_listed_is_loaded(store_lake: StoreLake, strikes: Strikes) -> None:
    month = ChangingMonth(store_lake, "parquet")
    before = month.facts()
    writer = Writer(month)
    strikes.before("Insert", lambda: writer.open(1))
    try:
        assert month.load() == "published"
        assert store_lake.facts() == before
    finally:
        writer.close()


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_file_that_is_moved_into_anothers_place_is_noticed(
    store_lake: StoreLake, strikes: Strikes, kind: Kind
) -> None:
    month = ChangingMonth(store_lake, kind)
    server, folder = store_lake.objects.server, f"/{store_lake.place}"
    server.put(f"{folder}/new", file_of(kind, 1, version=2))

    def swap() -> None:
        server.rename(f"{folder}/{month.key(1)}", f"{folder}/old")
        server.rename(f"{folder}/new", f"{folder}/{month.key(1)}")

    strikes.before("Insert", swap)
    month.load()
    assert len(strikes.struck) == 1
    assert store_lake.facts() == month.facts()
    assert month.load() == "unchanged"
