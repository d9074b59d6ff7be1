"""The doctor's questions to replicas, on real ones."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.doctor.disks import REPLICAS, judge_replicas
from tests.replicated.conftest import FIRST, FOLLOWER, Replicated

#: The servers in `tests/servers` have replicas on every change.
pytestmark = pytest.mark.thorough


def test_replicas_that_follow_are_no_finding(replicated: Replicated) -> None:
    nodes = list(replicated.clients)
    check = judge_replicas({nodes[at]: replicated.ask(at, REPLICAS.text) for at in (FIRST, FOLLOWER)})
    assert check.findings == ()
    # The tables of other tests may be among them.
    assert check.summary.endswith("replicas, 0 parts in their queues")
