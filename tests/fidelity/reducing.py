"""Makes a failing case smaller: fewer files, columns and rows, as long as it fails in the same way."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from tests.fidelity.cases import Case
from tests.fidelity.running import Outcome

_MOST_TRIES = 16


def reduced(case: Case, outcome: Outcome, run: Callable[[Case], Outcome]) -> tuple[Case, Outcome]:
    """The smallest case that was found to fail in the same way."""
    tries = 0
    while True:
        for smaller in _smaller(case):
            tries += 1
            found = run(smaller)
            if found.kind == outcome.kind:
                case, outcome = smaller, found
                break
            if tries >= _MOST_TRIES:
                return case, outcome
        else:
            return case, outcome


def _smaller(case: Case) -> Iterator[Case]:
    for number in range(len(case.files)):
        if len(case.files) > 1:
            without = copy.deepcopy(case)
            del without.files[number]
            yield without
    for column in case.columns[2:]:
        without = copy.deepcopy(case)
        without.columns = [each for each in case.columns if each.name != column.name]
        for file in without.files:
            file.lanes = [lane for lane in file.lanes if lane.name != column.name]
        yield without
    for number, file in enumerate(case.files):
        names = {column.name for column in case.columns}
        for lane in [lane for lane in file.lanes if lane.name not in names]:
            without = copy.deepcopy(case)
            without.files[number].lanes = [each for each in without.files[number].lanes if each.name != lane.name]
            yield without
        yield from _fewer_rows(case, number)


def _fewer_rows(case: Case, number: int) -> Iterator[Case]:
    rows = case.files[number].rows
    if rows < 2:
        return
    half = rows // 2
    for kept in (range(half), range(half, rows)):
        fewer = copy.deepcopy(case)
        for lane in fewer.files[number].lanes:
            lane.cells = [lane.cells[row] for row in kept]
        yield fewer
