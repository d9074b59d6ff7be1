"""A load with `select={c: c}` for each column is the load without it, or is refused."""

from __future__ import annotations

import pytest

from tests.selected.running import DIFFERENT, SAME, run
from tests.support.lake import Lake

#: Cases from the long run, `python -m tests.selected`, which has hundreds; the same ones each time.
_FEW, _MANY = range(3), range(3, 100)


@pytest.mark.newer("all types that cases have")
@pytest.mark.parametrize("numbers", [_FEW, pytest.param(_MANY, marks=pytest.mark.thorough)])
def test_columns_that_select_names_are_those_of_the_files(lake_of_one: Lake, numbers: range) -> None:
    outcomes = [run(lake_of_one, 1, number) for number in numbers]
    assert [outcome for outcome in outcomes if outcome.kind == DIFFERENT] == []
    assert SAME in {outcome.kind for outcome in outcomes}
