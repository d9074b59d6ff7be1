"""Ports of servers that are not started yet."""

from __future__ import annotations

import subprocess
import sys

import pytest

from airflow_provider_chs3.testbed import processes

_TAKE = """
import sys
from airflow_provider_chs3.testbed import processes
taken = [port for port in range(*map(int, sys.argv[1:])) if processes._PORTS.take(port)]
print(*taken, flush=True)
input()
"""


@pytest.fixture
def range_of_ten(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    (first,) = processes.free_ports(1)
    monkeypatch.setattr(processes, "_FIRST_PORT", first + 1)
    monkeypatch.setattr(processes, "_LAST_PORT", first + 11)
    return first + 1, first + 11


def test_a_port_is_given_once_and_to_one_process(range_of_ten: tuple[int, int]) -> None:
    mine = processes.free_ports(4)
    assert len(set(mine)) == 4
    arguments = [sys.executable, "-c", _TAKE, *map(str, range_of_ten)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = set(map(int, other.stdout.readline().split()))
        assert theirs
        assert theirs.isdisjoint(mine)
        with pytest.raises(RuntimeError, match="has 0 free ports"):
            processes.free_ports(1)
        other.communicate("\n")
    assert set(processes.free_ports(len(theirs))) == theirs


def test_too_few_ports_are_an_error(range_of_ten: tuple[int, int]) -> None:
    with pytest.raises(RuntimeError, match=r"has \d+ free ports from"):
        processes.free_ports(11)
