"""A table's engine and clauses, and what follows for its rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.surroundings import TARGET

MOVES, RECOMPRESSES = "at + toIntervalDay(1) TO DISK 'a'", "at + toIntervalDay(3) RECOMPRESS CODEC(ZSTD(3), LZ4)"


def with_ttl(ttl: str):
    return replace(TARGET, engine_full=f"MergeTree ORDER BY id TTL {ttl} SETTINGS disk = 'x'")


@pytest.mark.parametrize(
    "ttl",
    [
        "at + toIntervalYear(2)",
        "at + toIntervalYear(2) WHERE kind = ' TO DISK '",
        f"{MOVES}, at + toIntervalYear(2) GROUP BY id, at SET n = sum(n)",
        f"at + toIntervalDay(n, 2), {RECOMPRESSES}",
    ],
)
def test_a_ttl_that_deletes_or_groups_takes_rows_away(ttl):
    assert with_ttl(ttl).may_lose_all
    assert not with_ttl(ttl).keeps_every_row


@pytest.mark.parametrize("ttl", [MOVES, "at TO VOLUME 'b'", RECOMPRESSES, f"{MOVES}, {RECOMPRESSES}"])
def test_one_that_moves_or_recompresses_takes_none(ttl):
    assert not with_ttl(ttl).may_lose_all
    assert with_ttl(ttl).keeps_every_row


def test_names_and_texts_are_no_clauses():
    assert replace(TARGET, engine_full="MergeTree ORDER BY (id, `a TTL b`) SETTINGS disk = ' TTL '").keeps_every_row
