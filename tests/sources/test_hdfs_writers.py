"""Files of HDFS that somebody writes to, moves or swaps while they are loaded."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from airflow_provider_chs3.exceptions import ObjectsChangedError
from tests.faults.strikes import Strikes, strikes
from tests.sources.changing import ChangingMonth, Kind, file_of
from tests.sources.hdfs import HdfsServer
from tests.sources.store_lake import StoreLake

__all__ = ["strikes"]

pytestmark = pytest.mark.parametrize("store_lake", ["hdfs"], indirect=True)

#: Rows of which the last one is cut off in the middle of a value.
TORN = b"".join(file_of("jsonl", 1, version=7) for _ in range(20))[:-30]


def path(month: ChangingMonth, number: int) -> str:
    return f"/{month.lake.place}/{month.key(number)}"


def server(month: ChangingMonth) -> HdfsServer:
    return month.lake.objects.server


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_file_that_is_open_for_writing_is_loaded_once_it_is_closed(
    store_lake: StoreLake, strikes: Strikes, kind: Kind
) -> None:
    month = ChangingMonth(store_lake, kind)
    more = b"".join(file_of("jsonl", 1, version=7) for _ in range(20))
    with ExitStack() as stack:
        strikes.before(
            "Insert", lambda: stack.enter_context(server(month).open_for_writing(path(month, 1), more))
        )
        try:
            print(month.load())
        except ObjectsChangedError as error:
            print(error)
        print(store_lake.facts())
    print(month.facts())
