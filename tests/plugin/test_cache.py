"""A crowd asks once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.plugin.answers import periods
from airflow_provider_chs3.plugin.answers.periods import PeriodsAnswer, PeriodsQuestion
from airflow_provider_chs3.plugin.cache import SharedAnswers


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(max_workers=4) as pool:
        yield pool


class Counted:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def look(self, name: str) -> int:
        self.asked.append(name)
        time.sleep(0.05)
        return len(self.asked)


def test_many_at_once_share_one_look(pool: ThreadPoolExecutor) -> None:
    counted = Counted()
    looks = SharedAnswers(counted.look, pool=pool, seconds=60)

    async def crowd() -> list[int]:
        return await asyncio.gather(*(looks.get("one") for _ in range(200)))

    assert set(asyncio.run(crowd())) == {1}
    assert asyncio.run(crowd())[0] == 1
    assert counted.asked == ["one"]


def test_each_name_has_its_own(pool: ThreadPoolExecutor) -> None:
    counted = Counted()
    looks = SharedAnswers(counted.look, pool=pool, seconds=60)
    asyncio.run(looks.get("one"))
    asyncio.run(looks.get("two"))
    assert counted.asked == ["one", "two"]


def test_an_old_answer_is_asked_for_again(pool: ThreadPoolExecutor) -> None:
    counted = Counted()
    looks = SharedAnswers(counted.look, pool=pool, seconds=0.1)
    asyncio.run(looks.get("one"))
    time.sleep(0.2)
    assert asyncio.run(looks.get("one")) == 2


def test_whoever_goes_away_does_not_end_the_look_of_others(pool: ThreadPoolExecutor) -> None:
    counted = Counted()
    looks = SharedAnswers(counted.look, pool=pool, seconds=60)

    async def one_goes() -> int:
        going, staying = (asyncio.create_task(looks.get("one")) for _ in range(2))
        await asyncio.sleep(0)
        going.cancel()
        return await staying

    assert asyncio.run(one_goes()) == 1


@pytest.mark.parametrize("is_quick", [True, False])
def test_a_quick_answer_and_the_one_after_it_stand_for_each_other(
    monkeypatch: pytest.MonkeyPatch, is_quick: bool
) -> None:
    def look(question: PeriodsQuestion) -> PeriodsAnswer:
        if question.is_quick is is_quick:
            raise Chs3Error("down")
        return PeriodsAnswer(conn_id="c", nodes=(), tables={}, seen_at=1.0)

    monkeypatch.setattr(periods, "look_at_periods", look)
    answers = periods.period_answers()
    for each in (not is_quick, is_quick):
        found = answers.look(PeriodsQuestion("c", is_quick=each))
    assert (found.seen_at, found.error) == (1.0, "down")
