"""Damaged files of every format and codec: refused, or loaded with the rows that another reader finds."""

from __future__ import annotations

import pytest

from tests.damage.running import FAULTS, LOADED, REFUSED, run
from tests.support.lake import Lake

#: The long run, `python -m tests.damage`, has thousands of cases; these are the same ones each time.
_CASES, _AT_ONCE, _FEW = 100, 10, 5


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "numbers",
    [range(_FEW), range(_FEW, _AT_ONCE), *(range(each, each + _AT_ONCE) for each in range(_AT_ONCE, _CASES, _AT_ONCE))],
)
def test_a_damaged_file_is_refused_or_loaded_as_another_reader_reads_it(lake_of_one: Lake, numbers: range) -> None:
    outcomes = [run(lake_of_one, 1, number) for number in numbers]
    assert [outcome for outcome in outcomes if outcome.kind in FAULTS] == []
    assert {outcome.kind for outcome in outcomes} == {LOADED, REFUSED}
