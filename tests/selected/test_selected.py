"""A load with `select={c: c}` for each column is the load without it, or is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.lake import Lake, lake_on
from tests.selected.running import DIFFERENT, SAME, run

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

#: Cases from the long run, `python -m tests.selected`, which has hundreds; the same ones each time.
_FEW, _MANY = range(3), range(3, 100)


@pytest.fixture
def selected_lake(cluster_of_one: Cluster, chs3_s3: Any, chs3_bucket: str) -> Iterator[Lake]:
    """A lake on a cluster of one node."""
    with pytest.MonkeyPatch.context() as patch, lake_on(cluster_of_one, chs3_s3, chs3_bucket, patch) as lake:
        yield lake


@pytest.mark.newer("all types that cases have")
@pytest.mark.parametrize("numbers", [_FEW, pytest.param(_MANY, marks=pytest.mark.thorough)])
def test_columns_that_select_names_are_those_of_the_files(selected_lake: Lake, numbers: range) -> None:
    outcomes = [run(selected_lake, 1, number) for number in numbers]
    assert [outcome for outcome in outcomes if outcome.kind == DIFFERENT] == []
    assert SAME in {outcome.kind for outcome in outcomes}
