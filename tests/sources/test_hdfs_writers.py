"""Files of HDFS that somebody writes to, or moves, while they are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from airflow_provider_chs3.exceptions import NotReadyError
from tests.sources.changing import ChangingPeriod, Kind, file_of
from tests.sources.hdfs import HdfsServer
from tests.sources.store_lake import StoreLake
from tests.support.strikes import Strikes, strikes

__all__ = ["strikes"]

pytestmark = pytest.mark.parametrize("store_lake", ["hdfs"], indirect=True)

#: More than a block of tests, which ends in the middle of a row.
LINES = b"".join(file_of("jsonl", 1, version=7) for _ in range(60))


class Writer:
    """Somebody who opens files of the period, and writes to them until the end."""

    def __init__(self, period: ChangingPeriod) -> None:
        self.server: HdfsServer = period.lake.objects.server
        self.folder = f"/{period.lake.place}"
        self.period = period
        self._files = ExitStack()

    def open(self, number: int, *, is_new: bool = False) -> None:
        path = f"{self.folder}/{self.period.key(number)}"
        self._files.enter_context(self.server.open_for_writing(path, LINES[:-30], LINES[-30:], is_new=is_new))

    def close(self) -> None:
        self._files.close()


@pytest.fixture
def writer(store_lake: StoreLake) -> Iterator[Writer]:
    writer = Writer(ChangingPeriod(store_lake, "jsonl"))
    yield writer
    writer.close()


@pytest.mark.thorough
def test_a_file_of_which_only_whole_blocks_are_written_is_not_loaded_until_it_is_closed(
    store_lake: StoreLake, writer: Writer
) -> None:
    writer.open(5, is_new=True)
    with pytest.raises(
        NotReadyError, match=rf"{writer.period.key(5)} is being written, and only its first 1,048,576 b"
    ):
        writer.period.load()
    assert (store_lake.rows(), store_lake.staging()) == (0, [])
    writer.close()
    assert writer.period.load() == "published"
    assert store_lake.facts() == writer.period.facts()


@pytest.mark.thorough
def test_a_file_of_whole_blocks_that_is_closed_is_loaded(store_lake: StoreLake, writer: Writer) -> None:
    block = 1024**2
    lines = LINES[:block].rpartition(b"\n")[0] + b"\n"
    path = f"{writer.folder}/{writer.period.key(5)}"
    writer.server.put(path, lines + b" " * (block - len(lines) - 1) + b"\n", block_bytes=block)
    assert writer.period.load() == "published"
    assert store_lake.facts() == writer.period.facts()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
@pytest.mark.parametrize("when", ["at first", "before the insert"])
def test_of_a_file_that_is_open_again_what_is_listed_is_loaded(
    store_lake: StoreLake, strikes: Strikes, kind: Kind, when: str
) -> None:
    period = ChangingPeriod(store_lake, kind)
    before = period.facts()
    writer = Writer(period)
    if when == "at first":
        writer.open(1)
    else:
        strikes.before("Insert", lambda: writer.open(1))
    try:
        assert period.load() == "published"
        assert store_lake.facts() == before
    finally:
        writer.close()
    if kind == "jsonl":
        period.load()
        assert store_lake.facts() == period.facts() != before


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_file_that_is_moved_into_anothers_place_is_noticed(
    store_lake: StoreLake, strikes: Strikes, kind: Kind
) -> None:
    period = ChangingPeriod(store_lake, kind)
    server, folder = store_lake.objects.server, f"/{store_lake.place}"
    server.put(f"{folder}/new", file_of(kind, 1, version=2))

    def swap() -> None:
        server.rename(f"{folder}/{period.key(1)}", f"{folder}/old")
        server.rename(f"{folder}/new", f"{folder}/{period.key(1)}")

    strikes.before("Insert", swap)
    period.load()
    assert len(strikes.struck) == 1
    assert store_lake.facts() == period.facts()
    assert period.load() == "unchanged"
