"""One poll for all who wait: who is asked for when, and what an error does."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException

from airflow_provider_chs3.client.driver import Connection
from airflow_provider_chs3.exceptions import ClickHouseServerError
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.testbed.processes import free_ports
from airflow_provider_chs3.triggers import shared_poll
from airflow_provider_chs3.triggers.servers import run_blocking

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

LOG = logging.getLogger("waiter")


@dataclass(frozen=True, kw_only=True)
class Doubles(shared_poll.Subject[int, int]):
    """Twice the item, as ClickHouse computes it."""

    conn_id: str = "chs3_default"
    table: str = "numbers(1000)"
    #: The questions in order; they do not count when subjects are compared.
    polls: list[frozenset[int]] = field(default_factory=list, compare=False)

    def asker(self, hook: ClickHouseHook) -> Callable[[frozenset[int]], Mapping[int, int]]:
        def ask(wanted: frozenset[int]) -> Mapping[int, int]:
            self.polls.append(wanted)
            numbers = ", ".join(map(str, wanted))
            return dict(hook.query(f"SELECT number, number * 2 FROM {self.table} WHERE number IN ({numbers})"))

        return ask


async def double(subject: Doubles, number: int, after_seconds: float = 0.2, **options: Any) -> int:
    return await shared_poll.answer(subject, number, after_seconds=after_seconds, log=LOG, **options)


async def gather(*waiting: Coroutine[Any, Any, int]) -> list[int]:
    return list(await asyncio.gather(*waiting))


@pytest.fixture(autouse=True)
def _connected(chs3_airflow_connections: None) -> None:
    """All tests are about `chs3_default`."""


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes connections, and never says anything; who waits for it is told when it is closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def lead_to(monkeypatch: pytest.MonkeyPatch, port: int, **extra: Any) -> str:
    connection = {"conn_type": "chs3", "host": "127.0.0.1", "port": port, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_BROKEN", json.dumps(connection))
    return "chs3_broken"


class TestSharing:
    def test_one_question_answers_all_who_wait(self) -> None:
        subject = Doubles()
        answers = asyncio.run(gather(*(double(subject, number) for number in range(100))))
        assert answers == [2 * number for number in range(100)]
        assert subject.polls == [frozenset(range(100))]

    def test_equal_subjects_share_a_poller_and_others_do_not(self) -> None:
        first, equal, other = Doubles(), Doubles(), Doubles(table="numbers(999)")
        asyncio.run(gather(double(first, 1), double(equal, 2), double(other, 3)))
        assert (first.polls, equal.polls, other.polls) == ([{1, 2}], [], [{3}])

    def test_who_is_half_way_is_answered_too(self) -> None:
        subject = Doubles()
        asyncio.run(gather(double(subject, 1, 0.3), double(subject, 2, 0.5)))
        assert subject.polls == [{1, 2}]

    def test_but_not_sooner_than_asked_for(self) -> None:
        subject = Doubles()

        async def polled_with_the_first() -> None:
            patient = asyncio.create_task(double(subject, 2, 3.9, at_least_seconds=3.9))
            await double(subject, 1, 2)
            patient.cancel()

        asyncio.run(polled_with_the_first())
        assert subject.polls == [{1}]

    def test_who_comes_later_waits_for_the_next_poll_with_the_others(self) -> None:
        subject = Doubles()

        async def one_by_one() -> None:
            async def later(number: int) -> int:
                await asyncio.sleep(0.02 * number)
                return await double(subject, number, 0.4)

            await gather(*(later(number) for number in range(25)))

        began = time.monotonic()
        asyncio.run(one_by_one())
        # However long a busy machine takes: polls are half of the 0.4 s apart.
        assert len(subject.polls) <= 1 + (time.monotonic() - began) / 0.2

    def test_loops_of_several_threads_do_not_mix(self) -> None:
        subject = Doubles()

        async def in_two_loops() -> list[int]:
            return await asyncio.gather(*(asyncio.to_thread(asyncio.run, double(subject, n)) for n in (1, 2)))

        assert asyncio.run(in_two_loops()) == [2, 4]
        assert sorted(map(sorted, subject.polls)) == [[1], [2]]


class TestLeaving:
    def test_others_are_answered_when_one_waiter_is_cancelled(self) -> None:
        subject = Doubles()

        async def cancel_one() -> int:
            cancelled = asyncio.create_task(double(subject, 1, 1.0))
            other = asyncio.create_task(double(subject, 2, 1.0))
            await asyncio.sleep(0)
            cancelled.cancel()
            return await other

        assert asyncio.run(cancel_one()) == 4
        assert subject.polls == [{2}]

    def test_the_poller_ends_after_the_last_waiter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shared_poll, "_LINGER_SECONDS", 0.1)

        async def until_none_is_left() -> None:
            await double(Doubles(), 1)
            async with asyncio.timeout(120):
                while len(asyncio.all_tasks()) > 1:
                    await asyncio.sleep(0.05)

        asyncio.run(until_none_is_left())
        assert not shared_poll._pollers

    def test_its_connections_are_closed_then(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shared_poll, "_LINGER_SECONDS", 0.1)
        made: list[Connection] = []
        connect = Connection.connect
        monkeypatch.setattr(Connection, "connect", lambda each: made.append(each) or connect(each))

        def open_ones() -> int:
            return sum(each.socket is not None for each in set(made))

        async def connections() -> int:
            for _ in range(5):
                await gather(*(double(Doubles(table=f"numbers({n})"), 1, 0.05) for n in range(10, 30)))
            during = open_ones()
            async with asyncio.timeout(120):
                while open_ones():
                    await asyncio.sleep(0.05)
            return during

        assert 1 <= asyncio.run(connections()) <= 2


class TestErrors:
    def test_one_that_may_pass_is_told_and_asked_again(
        self,
        chs3_cluster: Cluster,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(shared_poll, "_RETRY_SECONDS", (0.1,))
        subject = Doubles(conn_id=lead_to(monkeypatch, free_ports(1)[0]))

        async def node_comes_back() -> int:
            waiting = asyncio.create_task(double(subject, 1))
            while len(subject.polls) < 3:
                await asyncio.sleep(0.05)
            good = chs3_cluster.airflow_connection()
            monkeypatch.setenv("AIRFLOW_CONN_CHS3_BROKEN", json.dumps(good))
            return await waiting

        assert asyncio.run(node_comes_back()) == 2
        assert "No answer from ClickHouse at 127.0.0.1" in caplog.text
        assert "Asking again in 0.1 s." in caplog.text

    def test_a_terminal_one_ends_all_who_wait(self) -> None:
        subject = Doubles(table="not_there")

        async def both() -> list[object]:
            return await asyncio.gather(double(subject, 1), double(subject, 2), return_exceptions=True)

        errors = asyncio.run(both())
        assert [error.code for error in errors if isinstance(error, ClickHouseServerError)] == [60, 60]

    def test_an_answer_that_is_missing_is_an_error(self) -> None:
        with pytest.raises(KeyError):
            asyncio.run(double(Doubles(), 1_000_000))

    def test_a_connection_that_is_not_there(self) -> None:
        # Airflow 3.1 looks connections up in its own processes only.
        with pytest.raises((AirflowNotFoundException, ImportError)):
            asyncio.run(double(Doubles(conn_id="no_such_connection"), 1))

    def test_a_server_that_hangs_keeps_neither_the_loop_nor_other_servers_waiting(
        self, silent: socket.socket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dead = lead_to(
            monkeypatch, silent.getsockname()[1], connect_timeout_seconds=300, send_receive_timeout_seconds=300
        )

        async def longest_pause() -> tuple[float, float]:
            hanging = [
                asyncio.create_task(double(Doubles(conn_id=dead, table=f"numbers({n})"), 1, 0.01)) for n in range(20)
            ]
            started = last = time.monotonic()
            answered = asyncio.create_task(double(Doubles(), 1, 0.3))
            pauses = []
            while not answered.done():
                await asyncio.sleep(0.01)
                pauses.append(time.monotonic() - last)
                last = time.monotonic()
            assert not any(each.done() for each in hanging)
            for each in hanging:
                each.cancel()
            silent.close()
            return max(pauses), last - started

        pause_seconds, answered_seconds = asyncio.run(longest_pause())
        # A busy machine pauses the loop for a second at times; a server that is waited for would do so for 300.
        assert pause_seconds < 60
        assert answered_seconds < 60


def test_something_that_blocks_is_run_once_off_the_loop() -> None:
    assert asyncio.run(run_blocking("chs3_default", lambda hook: hook.query("SELECT 1"))) == [(1,)]
