"""A case: one to three files, what happened to the first, and whether their load was right."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
from tests.damage.files import DAMAGES, KINDS, READERS, SNAPPY, WRITERS, Rows, rows_of

if TYPE_CHECKING:
    from tests.support.lake import Lake

PERIOD = "2026-10"
#: It writes every format and most codecs by itself: `INSERT INTO FUNCTION s3`.
CLICKHOUSE = "ClickHouse"
LOADED, REFUSED = "loaded, as another reader reads it", "refused"
WRONG, WITHOUT_NEED = "published other rows", "refused without need"
FAULTS = (WRONG, WITHOUT_NEED)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case."""

    case: str
    kind: str
    details: str = ""


def run(lake: Lake, seed: int, number: int) -> Outcome:
    """Make the files of a case, load them, and compare."""
    chance = random.Random(f"{seed}:{number}")
    kind, damage = (chance.choice(list(each)) for each in (KINDS, DAMAGES))
    lake.table = f"damage_{seed}_{number}"
    files = [_draw(lake, chance, kind, "whole" if others else damage) for others in range(chance.choice([1, 1, 2, 3]))]
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.{lake.table} (id UInt64, text String, at Date DEFAULT '{PERIOD}-01') "
        "ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY id"
    )
    try:
        case = f"{damage}: {', '.join(file.title for file in files)}"
        chance.shuffle(files)
        for place, each in enumerate(files):
            lake.put(f"{lake.table}/{PERIOD}/{place}.{each.ending}", each.data)
        return _load(lake, case, files, is_whole=damage == "whole")
    finally:
        lake.on_every_node(f"DROP TABLE {lake.database}.{lake.table} SYNC")


@dataclass(frozen=True)
class _File:
    """A file of a case."""

    ending: str
    writer: str
    data: bytes
    rows: Rows | None

    @property
    def title(self) -> str:
        return f"{self.ending} by {self.writer}"


def _draw(lake: Lake, chance: random.Random, kind: str, damage: str) -> _File:
    codec = chance.choice(list(WRITERS))
    writer = chance.choice([*WRITERS[codec], *([] if codec == SNAPPY else [CLICKHOUSE])])
    first, second = (_written(lake, kind, codec, writer, rows_of(chance)) for _ in range(2))
    data = DAMAGES[damage](first, second, chance)
    rows = _read(kind, codec, data)
    if rows is None and damage == "flipped":
        # Some readers ignore a bit beside the rows, such as one of the version of Arrow's metadata.
        rows = _read(kind, codec, first)
    return _File(f"{kind}{codec and '.'}{codec}", writer, data, rows)


def _written(lake: Lake, kind: str, codec: str, writer: str, rows: Rows) -> bytes:
    if writer != CLICKHOUSE:
        return WRITERS[codec][writer](KINDS[kind].write(rows))
    key = f"written/{lake.table}"
    function = (
        f"s3({S3_NAMED_COLLECTION}, filename = '{lake.bucket}/{key}', format = '{KINDS[kind].name}', "
        f"structure = 'id UInt64, text String', compression_method = '{codec or 'none'}')"
    )
    with lake.cluster.nodes[0].client() as client:
        settings = {"s3_truncate_on_insert": 1}
        client.execute(f"INSERT INTO FUNCTION {function} (id, text) VALUES", rows, settings=settings)
    return bytes(lake.s3.get_object(Bucket=lake.bucket, Key=key)["Body"].read())


def _read(kind: str, codec: str, data: bytes) -> Rows | None:
    """The rows that another reader finds; None if it takes the file for damaged."""
    try:
        body, is_whole = READERS[codec](data)
        return KINDS[kind].read(body) if is_whole or KINDS[kind].has_footer else None
    except Exception:
        # Readers have errors of many kinds.
        return None


def _load(lake: Lake, case: str, files: Sequence[_File], *, is_whole: bool) -> Outcome:
    # Of Snappy nothing proves that it is whole, so what is not must be refused.
    options = {"unproved_codecs": "load"} if is_whole else {}
    try:
        lake.load(key=f"{lake.table}/{{YYYY-MM}}/", period=PERIOD, columns=["id", "text"], **options)
        message = ""
    except (AirflowFailException, Chs3Error) as error:
        message = str(error)
    found = sorted(
        (number, bytes.fromhex(text))
        for rows in lake.on_every_node(f"SELECT id, hex(text) FROM {lake.database}.{lake.table}")
        for number, text in rows
    )
    if message and not found:
        return Outcome(case, WITHOUT_NEED if is_whole else REFUSED, message)
    read = [file.rows for file in files]
    wanted = sorted((number, text.encode("utf-8", "surrogateescape")) for rows in read for number, text in rows or [])
    if message or None in read or found != wanted:
        of_readers = "any" if None in read else len(wanted)
        return Outcome(case, WRONG, f"{len(found)} rows, and not {of_readers}. {message}")
    return Outcome(case, LOADED)
