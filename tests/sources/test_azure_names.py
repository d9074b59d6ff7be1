"""Names of blobs that ClickHouse does not find by its globs: they are refused, and never left out silently."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.storages.azure_blob_source import AzureBlobSource
from tests.sources.changing import file_of
from tests.sources.store_lake import MONTH, StoreLake

pytestmark = pytest.mark.parametrize("store_lake", ["azure"], indirect=True)


@pytest.mark.parametrize("name", ["a//b c", "ünï//x", "{x}//y", "a//{x}", "[1]//b", "a//b'c", "a,b//c", "/a#b"])
def test_a_name_with_an_empty_part_and_other_characters_is_refused_before_anything_is_written(
    store_lake: StoreLake, name: str
) -> None:
    store_lake.objects.put(f"trips/{MONTH}/{name}.parquet", file_of("parquet", 0))
    with pytest.raises(AirflowFailException, match=r"ClickHouse cannot read .*: beside '//' a name .*Copy the object"):
        store_lake.load()
    assert store_lake.on_every_node(f"SELECT name FROM system.tables WHERE database = '{store_lake.database}'") == [
        [("trips",)] for _ in store_lake.cluster.nodes
    ]


def test_a_name_with_empty_parts_and_plain_characters_is_loaded(store_lake: StoreLake) -> None:
    for number, name in enumerate(("a//b", "a///b", "/a", "//a")):
        store_lake.objects.put(f"trips/{MONTH}/{name}.jsonl", file_of("jsonl", number))
    assert (store_lake.load()["objects"], store_lake.rows()) == (4, 400)


def test_an_object_that_servers_do_not_find_is_an_error_where_rows_are_counted(
    store_lake: StoreLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AzureBlobSource, "check_readable", lambda *arguments: None)
    for number, name in enumerate(("a b", "ünï//x")):
        store_lake.objects.put(f"trips/{MONTH}/{name}.jsonl", file_of("jsonl", number))
    with pytest.raises(AirflowFailException, match=r"2 objects were listed, but ClickHouse found 1 of them"):
        store_lake.load()
    assert store_lake.rows() == 0
