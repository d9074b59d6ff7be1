"""Objects that were cut off, of which servers would load what is left: refused, and nothing is published."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
from collections.abc import Callable
from typing import Any

import lz4.frame
import pytest
import zstandard
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
from tests.support import deferring
from tests.support.lake import PERIOD, Lake

ROWS = 20_000
KEY = f"trips/{PERIOD}/a"
LINES = [(number, f"row number {number}") for number in range(ROWS)]
TEXTS = {
    "csv": "".join(["id,text\n", *(f"{number},{text}\n" for number, text in LINES)]).encode(),
    "tsv": "".join(["id\ttext\n", *(f"{number}\t{text}\n" for number, text in LINES)]).encode(),
    "jsonl": "".join(json.dumps({"id": number, "text": text}) + "\n" for number, text in LINES).encode(),
}


def in_pieces(body: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor().compressobj()
    return compressor.compress(body) + compressor.flush()


CODECS: dict[str, Callable[[bytes], bytes]] = {"zst": in_pieces, "lz4": lz4.frame.compress}


@pytest.fixture
def texts(lake: Lake) -> Lake:
    """A lake with a table of texts."""
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips (at DateTime('UTC') DEFAULT '2026-10-01 00:00:00', id UInt64, "
        "text String) ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY id"
    )
    return lake


def rows_of(lake: Lake) -> list[tuple[int, str]]:
    parts = lake.on_every_node(f"SELECT id, text FROM {lake.database}.trips")
    return sorted(row for rows in parts for row in rows)


def refused(lake: Lake, match: str, **options: Any) -> None:
    with pytest.raises(AirflowFailException, match=match):
        lake.load(**options)
    assert rows_of(lake) == []


def native(lake: Lake, first: int, rows: int) -> bytes:
    """Blocks of Native, as ClickHouse writes them to an object."""
    import base64
    import urllib.request

    node = lake.cluster.nodes[0]
    sql = f"SELECT number AS id, concat('row number ', toString(number)) AS text FROM numbers({first}, {rows})"
    login = f"{node.credentials.login}:{node.credentials.password}".encode()
    request = urllib.request.Request(
        f"http://{node.host}:{node.http_port}/",
        data=f"{sql} FORMAT Native".encode(),
        headers={"Authorization": f"Basic {base64.b64encode(login).decode()}"},
    )
    with urllib.request.urlopen(request) as answer:
        return bytes(answer.read())


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("ending", TEXTS)
def test_a_cut_object_is_refused_wherever_it_was_cut(texts: Lake, ending: str, codec: str) -> None:
    data = CODECS[codec](TEXTS[ending])
    texts.put(f"{KEY}.{ending}.{codec}", data[:300])
    refused(texts, r"cannot be read as|was cut off", columns=["id", "text"])
    for size in (len(data) * 35 // 100, len(data) * 60 // 100, len(data) * 9 // 10, len(data) - 1):
        texts.put(f"{KEY}.{ending}.{codec}", data[:size])
        refused(
            texts,
            "was cut off, or is damaged: its .* data has no end",
            columns=["id", "text"],
            count_again=size % 2 == 0,
        )
    texts.put(f"{KEY}.{ending}.{codec}", data)
    assert texts.load(columns=["id", "text"])["counted_by"] == "insert"
    assert rows_of(texts) == LINES


@pytest.mark.thorough
@pytest.mark.parametrize("codec", CODECS)
def test_so_is_a_second_member_that_was_cut(texts: Lake, codec: str) -> None:
    member = CODECS[codec]("".join(f"{number},{text}\n" for number, text in LINES).encode())
    header = CODECS[codec](b"id,text\n")
    texts.put(f"{KEY}.csv.{codec}", header + member[: len(member) // 2])
    refused(texts, "its .* data has no end")
    texts.put(f"{KEY}.csv.{codec}", header + member)
    texts.load()
    assert rows_of(texts) == LINES


@pytest.mark.thorough
def test_so_is_a_second_stream_of_xz_that_was_cut_in_its_header(texts: Lake) -> None:
    whole = lzma.compress(TEXTS["csv"])
    texts.put(f"{KEY}.csv.xz", whole + whole[:9])
    refused(texts, "it does not end with an xz footer")
    texts.put(f"{KEY}.csv.xz", whole + bytes(8))
    texts.load()
    assert rows_of(texts) == LINES


def test_so_is_an_object_that_is_added_to_a_published_period(texts: Lake) -> None:
    texts.put(f"{KEY}.csv", TEXTS["csv"])
    texts.load()
    texts.put(f"{KEY}2.csv.zst", in_pieces(TEXTS["csv"])[:20_000])
    with pytest.raises(AirflowFailException, match="was cut off"):
        texts.load()
    assert rows_of(texts) == LINES


@pytest.mark.thorough
def test_so_is_one_of_a_deferred_load(texts: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    deferring.hurry(monkeypatch)
    texts.put(f"{KEY}.csv.lz4", lz4.frame.compress(TEXTS["csv"])[:-9])
    with pytest.raises(AirflowFailException, match="was cut off"):
        deferring.finish(texts)
    texts.put(f"{KEY}.csv.lz4", lz4.frame.compress(TEXTS["csv"]))
    deferring.finish(texts)
    assert rows_of(texts) == LINES


BY_SERVERS = {"named_collection": S3_NAMED_COLLECTION, "bucket": None}


@pytest.mark.thorough
@pytest.mark.parametrize("codec", ["zst", "lz4", "xz"])
def test_where_only_the_servers_get_in_one_hands_over_what_is_walked(texts: Lake, codec: str) -> None:
    pack = CODECS.get(codec, lzma.compress)
    whole = pack(TEXTS["csv"])
    options = BY_SERVERS | {"key": f"{texts.bucket}/trips/{{YYYY-MM}}/*"}
    cut = whole + whole[:9] if codec == "xz" else whole[: len(whole) * 6 // 10]
    texts.put(f"{KEY}.csv.{codec}", cut)
    refused(texts, "a.csv.* was cut off, or is damaged: (its .* data has no end|it does not end with an xz)", **options)
    texts.put(f"{KEY}.csv.{codec}", whole)
    texts.put(f"{KEY}2.csv.{codec}", pack(b"id,text\n20000,b\n"))
    assert texts.load(**options)["counted_by"] == "insert"
    assert rows_of(texts) == [*LINES, (20_000, "b")]


@pytest.mark.thorough
def test_what_is_too_large_to_hand_over_is_the_users_to_decide(texts: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    texts.put(f"{KEY}.csv.zst", in_pieces(TEXTS["csv"]))
    options = BY_SERVERS | {"key": f"{texts.bucket}/trips/{{YYYY-MM}}/*"}
    monkeypatch.setattr("airflow_provider_chs3.core.load.row_counts._MOST_HANDED_BYTES", 1000)
    refused(texts, "Nothing proves that .*a.csv.zst was not cut off: only the servers have access", **options)
    assert texts.load(**options, unproved_codecs="load")["rows"] == ROWS
    assert rows_of(texts) == LINES


@pytest.mark.thorough
def test_a_server_without_the_memory_to_hand_over_says_so(texts: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = texts.cluster.airflow_connection()
    connection["extra"] |= {"settings": {"max_memory_usage": 12_000_000}}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    texts.put(f"{KEY}.csv.zst", zstandard.compress(random.Random(1).randbytes(9_000_000)))
    options = BY_SERVERS | {"key": f"{texts.bucket}/trips/{{YYYY-MM}}/*"}
    refused(texts, "was not cut off: .* lack the memory to pass on 8.6 MiB", **options)


@pytest.mark.thorough
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, lz4.frame.compress, lzma.compress])
@pytest.mark.parametrize("ending", TEXTS)
def test_a_whole_object_of_nothing_has_no_rows(texts: Lake, ending: str, pack: Callable[[bytes], bytes]) -> None:
    codec = {gzip.compress: "gz", zstandard.compress: "zst", lzma.compress: "xz"}.get(pack, "lz4")
    texts.put(f"{KEY}.{ending}.{codec}", pack(b""))
    assert texts.load(columns=["id", "text"])["rows"] == 0
    texts.put(f"{KEY}2.{ending}.{codec}", pack(TEXTS[ending]))
    assert texts.load(columns=["id", "text"])["rows"] == ROWS
    assert rows_of(texts) == LINES


def test_bzip2_is_refused_by_its_key_or_its_bytes(texts: Lake) -> None:
    texts.put(f"{KEY}.csv.bz2", bz2.compress(TEXTS["csv"]))
    refused(texts, r"a.csv.bz2 is compressed with bzip2, which ClickHouse .* does not read: compress it with gzip")
    texts.s3.delete_object(Bucket=texts.bucket, Key=f"{KEY}.csv.bz2")
    texts.put(f"{KEY}.csv", bz2.compress(TEXTS["csv"]))
    refused(texts, r"a.csv is compressed with bzip2, which ClickHouse .* does not read: compress it with gzip")


@pytest.mark.thorough
def test_zstd_with_a_large_window_takes_a_setting(texts: Lake) -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=28)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    texts.put(f"{KEY}.csv.zst", compressor.compress(TEXTS["csv"]) + compressor.flush())
    refused(texts, r"larger window than servers allow .*settings=\{'zstd_window_log_max': 31\} reads it")
    texts.load(settings={"zstd_window_log_max": 31})
    assert rows_of(texts) == LINES


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["csv", "jsonl", "native"])
def test_compressed_bytes_under_another_key_are_called_so(texts: Lake, ending: str) -> None:
    body = TEXTS[ending] if ending in TEXTS else native(texts, 0, ROWS)
    texts.put(f"{KEY}.{ending}", gzip.compress(body))
    match = rf"a.{ending} is compressed with gzip, but its key does not say so: set files={{'compression': 'gzip'}}"
    refused(texts, match, columns=["id", "text"])
    texts.load(compression="gzip", columns=["id", "text"])
    assert rows_of(texts) == LINES


BEFORE_BLOCKS = pytest.mark.parametrize(
    "between", [pytest.param(b"\0\0", id="an empty block"), pytest.param(bytes(5000), id="zeros")]
)


@pytest.mark.thorough
@BEFORE_BLOCKS
@pytest.mark.parametrize("codec", ["", "zst", "gz"])
def test_native_ends_where_its_object_ends(texts: Lake, between: bytes, codec: str) -> None:
    first, second = native(texts, 0, 9_000), native(texts, 9_000, ROWS - 9_000)
    pack = {"": bytes, "zst": in_pieces, "gz": gzip.compress}[codec]
    key = f"{KEY}.native{codec and '.'}{codec}"
    for data in (first + between + second, first + second + between):
        texts.put(key, pack(data))
        refused(texts, "holds an empty block, or zeros, at which readers of Native stop")
    texts.put(key, pack(first + second))
    assert texts.load()["rows"] == ROWS
    assert rows_of(texts) == LINES


@pytest.mark.thorough
@pytest.mark.parametrize("pack", [gzip.compress, in_pieces, lzma.compress])
def test_compressed_native_of_nothing_has_no_rows(texts: Lake, pack: Callable[[bytes], bytes]) -> None:
    ending = {gzip.compress: "gz", in_pieces: "zst", lzma.compress: "xz"}[pack]
    texts.put(f"{KEY}.native.{ending}", pack(b""))
    assert texts.load()["rows"] == 0
    texts.put(f"{KEY}z.native", native(texts, 0, 9_000))
    assert texts.load(max_shrink_fraction=1)["rows"] == 9_000
    assert rows_of(texts) == LINES[:9_000]


@pytest.mark.thorough
def test_compressed_native_that_is_too_large_to_look_for_its_end_loads_if_its_user_says_so(
    texts: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_chs3.core.load.row_counts._MOST_NATIVE_BYTES", 0)
    texts.put(f"{KEY}.native.gz", gzip.compress(native(texts, 0, 9_000)))
    refused(
        texts, r"Write it in pieces, or without compression, or load it anyway with files=.'unproved_codecs': 'load'"
    )
    assert texts.load(unproved_codecs="load")["rows"] == 9_000


@pytest.mark.thorough
def test_so_does_native_of_a_deferred_load(texts: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    deferring.hurry(monkeypatch)
    texts.put(f"{KEY}.native", native(texts, 0, 9_000) + b"\0\0" + native(texts, 9_000, 10))
    with pytest.raises(AirflowFailException, match="at which readers of Native stop"):
        deferring.finish(texts)
    assert rows_of(texts) == []


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_large_native_is_proved_by_the_insert_on_all_nodes(texts: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing else would prove it.
    monkeypatch.setattr("airflow_provider_chs3.core.load.row_counts._MOST_NATIVE_BYTES", 0)
    for number in range(7):
        texts.put(
            f"{KEY}{number}.native", native(texts, number * 1000, 1000) + native(texts, 50_000 + number * 500, 500)
        )
    assert texts.load()["rows"] == 10_500
    texts.put(f"{KEY}9.native", native(texts, 0, 1000) + bytes(2))
    with pytest.raises(AirflowFailException, match="Nothing proves that"):
        texts.load()
