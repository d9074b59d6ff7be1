"""A case: a file, what happened to it, and whether its load was right."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import Chs3Error
from tests.damage.files import DAMAGES, KINDS, READERS, WRITERS, Rows, rows_of

if TYPE_CHECKING:
    from tests.integration.lake import Lake

MONTH = "2026-10"
LOADED, REFUSED = "loaded, as another reader reads it", "refused"
WRONG, WITHOUT_NEED = "published other rows", "refused without need"
FAULTS = (WRONG, WITHOUT_NEED)


@dataclass(frozen=True)
class Outcome:
    """What came of a case.

    Args:
        case: Format, codec, writer and damage.
        kind: One of the above.
        details: The message, or how many rows there are and should be.
    """

    case: str
    kind: str
    details: str = ""


def run(lake: Lake, seed: int, number: int) -> Outcome:
    """Make the file of a case, load it, and compare.

    Args:
        lake: Where.
        seed: Of all choices.
        number: Of the case.
    """
    chance = random.Random(f"{seed}:{number}")
    kind, codec, damage = (chance.choice(list(each)) for each in (KINDS, WRITERS, DAMAGES))
    writer = chance.choice(list(WRITERS[codec]))
    first, second = (WRITERS[codec][writer](KINDS[kind].write(rows_of(chance))) for _ in range(2))
    data = DAMAGES[damage](first, second, chance)
    case = f"{kind}{codec and '.'}{codec} by {writer}, {damage}"
    expected = _read(kind, codec, data)
    lake.table = f"damage_{seed}_{number}"
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.{lake.table} (id UInt64, text String, at Date DEFAULT '{MONTH}-01') "
        "ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY id"
    )
    try:
        lake.put(f"{lake.table}/{MONTH}/a.{kind}{codec and '.'}{codec}", data)
        return _load(lake, case, expected, must_load=damage == "whole")
    finally:
        lake.on_every_node(f"DROP TABLE {lake.database}.{lake.table} SYNC")


def _read(kind: str, codec: str, data: bytes) -> Rows | None:
    """The rows that another reader finds; None if it takes the file for damaged."""
    try:
        body, is_whole = READERS[codec](data)
        return KINDS[kind].read(body) if is_whole or KINDS[kind].has_footer else None
    except Exception:
        # Readers have errors of many kinds.
        return None


def _load(lake: Lake, case: str, expected: Rows | None, *, must_load: bool) -> Outcome:
    try:
        lake.load(key=f"{lake.table}/{{YYYY-MM}}/", month=MONTH, columns=["id", "text"])
        message = ""
    except (AirflowFailException, Chs3Error) as error:
        message = str(error)
    found = sorted(
        (number, bytes.fromhex(text))
        for rows in lake.on_every_node(f"SELECT id, hex(text) FROM {lake.database}.{lake.table}")
        for number, text in rows
    )
    if message and not found:
        return Outcome(case, WITHOUT_NEED if must_load else REFUSED, message)
    wanted = sorted((number, text.encode("utf-8", "surrogateescape")) for number, text in expected or [])
    if message or expected is None or found != wanted:
        return Outcome(
            case, WRONG, f"{len(found)} rows, and not {'any' if expected is None else len(wanted)}. {message}"
        )
    return Outcome(case, LOADED)
