"""Random tables and files of every format: each value is published as the file has it, or the load is refused."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tests.fidelity.formats import formats_read_by
from tests.fidelity.generate import generate
from tests.fidelity.pens import NoSuchValueError
from tests.fidelity.running import run
from tests.fidelity.showing import shown
from tests.support.lake import IS_OLDEST, Lake

#: The long run, `python -m tests.fidelity`, has thousands of cases; these are the same ones each time.
_CASES_OF_EACH, _IN_EVERY_CHANGE = 3, 2


@pytest.mark.thorough(but=4)
@pytest.mark.parametrize("name", formats_read_by(is_oldest=IS_OLDEST))
def test_every_value_is_as_the_files_have_it_or_the_load_is_refused(
    fidelity_lake: Lake, name: str, request: pytest.FixtureRequest
) -> None:
    @settings(
        max_examples=_CASES_OF_EACH if request.config.getoption("--all") else _IN_EVERY_CHANGE,
        derandomize=True,
        database=None,
        deadline=None,
        # A case is large, and takes a load; the long run makes one that fails smaller.
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
    )
    @given(st.randoms(use_true_random=False))
    def holds(choose: random.Random) -> None:
        try:
            case = generate(choose, formats=(name,))
        except NoSuchValueError:
            assume(False)
        outcome = run(case, fidelity_lake)
        assert not outcome.is_fault, shown(case, outcome, fidelity_lake.cluster.nodes[0])

    holds()
