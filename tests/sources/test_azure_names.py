"""Names of blobs with empty parts: each is loaded exactly, or refused before anything is staged."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.changing import Kind, file_of
from tests.sources.store_lake import StoreLake
from tests.sources.trips_target import PERIOD

pytestmark = pytest.mark.parametrize("store_lake", ["azure"], indirect=True)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_empty_parts_beside_plain_characters_are_loaded(store_lake: StoreLake, kind: Kind) -> None:
    for number, name in enumerate(("a//b", "a///b", "/a", "//a")):
        store_lake.objects.put(f"trips/{PERIOD}/{name}.{kind}", file_of(kind, number % 4))
    assert (store_lake.load()["objects"], store_lake.rows()) == (4, 400)


@pytest.mark.thorough
def test_empty_parts_beside_other_characters_are_loaded_from_text(store_lake: StoreLake) -> None:
    for number, name in enumerate(("a//b c", "ünï//x", "{x}//y", "a//b'c")):
        store_lake.objects.put(f"trips/{PERIOD}/{name}.jsonl", file_of("jsonl", number))
    assert (store_lake.load()["objects"], store_lake.rows()) == (4, 400)


@pytest.mark.thorough
def test_names_of_csv_that_differ_in_one_character_are_told_apart(store_lake: StoreLake) -> None:
    characters = " +,;&@()!$'"
    files = Trips(rows_per_period=1_100, files_per_period=len(characters))
    for character, (_, body) in zip(characters, files.files(PERIOD, file_format="csv.gz"), strict=True):
        store_lake.objects.put(f"trips/{PERIOD}/a{character}b.csv.gz", body)
    assert store_lake.load()["objects"] == len(characters)
    assert store_lake.facts() == files.facts(PERIOD)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["a//b c", "ünï//x", "[1]//b"])
def test_such_a_name_of_parquet_is_refused_before_anything_is_staged(store_lake: StoreLake, name: str) -> None:
    store_lake.objects.put(f"trips/{PERIOD}/{name}.parquet", file_of("parquet", 0))
    with pytest.raises(AirflowFailException, match=r"ClickHouse found 0 of them, and not .*//.*Copy the object"):
        store_lake.load()
    assert (store_lake.rows(), store_lake.staging()) == (0, [])
