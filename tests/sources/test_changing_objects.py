"""Objects that change while they are loaded: the period holds them as they were listed at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import Chs3Error
from tests.sources.changing import ChangingPeriod, Kind, file_of
from tests.sources.store_lake import StoreLake
from tests.support.strikes import Strikes, strikes

pytestmark = pytest.mark.three_nodes

__all__ = ["strikes"]

#: A step, and whether the change before it, or else after it, belongs to what is loaded.
MOMENTS = {
    "before the insert": ("before", "Insert", True),
    "after the insert": ("after", "Insert", True),
    "after it was listed again": ("after", "List again", False),
    "before it is published": ("before", "Record the intent", False),
    "as it is published": ("after", "Publish", False),
}


def test_versions_of_a_file_are_told_apart_by_values_alone() -> None:
    for kind in ("parquet", "jsonl"):
        one, other = file_of(kind, 1), file_of(kind, 1, version=2)
        assert len(one) == len(other)
        assert one != other


@pytest.mark.thorough(but=1, first=1)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("change", ["overwritten", "longer", "deleted", "added"])
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_period_holds_its_objects_as_they_were_at_one_moment(
    store_lake: StoreLake, strikes: Strikes, kind: Kind, change: str, moment: str
) -> None:
    period = ChangingPeriod(store_lake, kind)
    before = period.facts()
    when, step, belongs = MOMENTS[moment]
    getattr(strikes, when)(step, period.changes[change])
    assert period.load() == "published"
    after = period.facts()
    assert (len(strikes.struck), before == after) == (1, False)
    loaded = store_lake.facts()
    # An object that comes while a period is loaded is the next run's. A second read may meet a later change.
    assert loaded == before if change == "added" else loaded == after or not belongs
    assert loaded in (before, after)
    assert period.load() == ("unchanged" if loaded == after else "published")
    assert store_lake.facts() == after
    assert store_lake.staging() == []


@pytest.mark.thorough
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("store_lake", ["azure", "hdfs"], indirect=True)
def test_an_object_that_grows_is_loaded_as_long_as_it_was_at_one_moment(
    store_lake: StoreLake, strikes: Strikes, moment: str
) -> None:
    period = ChangingPeriod(store_lake, "jsonl")
    store_lake.objects.append(period.key(4), file_of("jsonl", 1, version=4))
    before = period.facts()
    when, step, belongs = MOMENTS[moment]
    getattr(strikes, when)(step, lambda: store_lake.objects.append(period.key(4), file_of("jsonl", 2, version=5)))
    assert period.load() == "published"
    # A second read of HDFS's files may meet a later change; then the load starts over.
    assert store_lake.facts() in ((period.facts(),) if belongs else (before, period.facts()))
    period.load()
    assert store_lake.facts() == period.facts() != before


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_an_older_object_that_changes_while_a_new_one_is_loaded_is_loaded_too(
    store_lake: StoreLake, strikes: Strikes, kind: Kind
) -> None:
    period = ChangingPeriod(store_lake, kind)
    period.load()
    period.add()
    strikes.reset()
    strikes.before("Insert", period.overwrite)
    period.load()
    assert len(strikes.struck) == 1
    assert store_lake.facts() == period.facts()
    assert period.load() == "unchanged"


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["Look at nodes and files", "Insert"])
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_an_object_of_which_half_is_read_as_it_is_overwritten_is_not_taken_for_damaged(
    store_lake: StoreLake, strikes: Strikes, kind: Kind, step: str
) -> None:
    period = ChangingPeriod(store_lake, kind)

    @contextmanager
    def half_of_it() -> Iterator[None]:
        period.put(1, file_of(kind, 1, version=2)[:-50])
        try:
            yield
        finally:
            period.overwrite()

    strikes.around_one(0, lambda each: each.name.startswith(step), half_of_it)
    assert period.load() == "published"
    assert len(strikes.struck) == 1
    assert store_lake.facts() == period.facts()
    assert (period.load(), store_lake.staging()) == ("unchanged", [])


def outcome(period: ChangingPeriod) -> str:
    """How a load ends: its status, or what it says."""
    try:
        return period.load()
    except (AirflowFailException, Chs3Error) as error:
        return str(error)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_loads_of_one_period_at_once_end_in_its_objects(store_lake: StoreLake, kind: Kind) -> None:
    period = ChangingPeriod(store_lake, kind)
    for change in period.changes.values():
        with ThreadPoolExecutor(max_workers=3) as pool:
            outcomes = list(pool.map(outcome, [period] * 3))
        # A load may be ended right after it has published, and the next one finds the period so.
        assert {"published", "unchanged"} & {*outcomes}
        assert [each for each in outcomes if each not in ("published", "unchanged")] == [
            each for each in outcomes if "started later and took over" in each
        ]
        assert store_lake.facts() == period.facts()
        assert (period.load(), store_lake.staging()) == ("unchanged", [])
        change()
