"""A few random nights; `python -m tests.nights` plays as many as wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nights.engines import ENGINES, Engine
from tests.nights.play import Nights
from tests.nights.servers import Servers
from tests.nights.spans import SPANS, Span
from tests.support.lake import Lake

_LEAST_NIGHTS, _MOST_NIGHTS = 2, 20


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("engine", "span"),
    [pytest.param(each, SPANS[n % len(SPANS)], id=each.name) for n, each in enumerate(ENGINES)],
)
def test_nights_by_increments_give_what_all_rows_give(lake: Lake, engine: Engine, span: Span, tmp_path: Path) -> None:
    nights = Nights(Servers(lake), engine, span, seed=7, log=tmp_path / "worker.log")
    wanted = 0 if engine.is_loaded_whole else 2
    for _ in range(_MOST_NIGHTS):
        night = nights.play()
        assert night.wrong == "", str(night)
        if night.number >= _LEAST_NIGHTS and nights.seen["increment"] >= wanted:
            break
    assert (nights.seen["increment"] > 0) is not engine.is_loaded_whole
