"""The doctor on the clocks and versions of nodes."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_chs3.core.doctor.nodes import Clock, NodeProbe, check_clocks, check_versions, probe_nodes
from airflow_provider_chs3.core.doctor.report import CheckOutcome
from airflow_provider_chs3.core.steps.operations import TimedAnswer
from airflow_provider_chs3.exceptions import ClickHouseConnectionError
from tests.core.surroundings import ONE, THREE, TWO
from tests.support.driving import drive

NODES = (ONE, TWO, THREE)
DOWN = ClickHouseConnectionError("Connection refused", "ch-2:9000")
HOUR_SECONDS = 3600.0


def probes(*ahead_seconds, took_seconds=0.01, version="26.9.2.1"):
    return {
        node: NodeProbe(
            version=version,
            user="loader",
            seconds=took_seconds,
            clock=Clock(ahead - took_seconds / 2, ahead + took_seconds / 2),
        )
        for node, ahead in zip(NODES, ahead_seconds, strict=False)
    }


class TestClocks:
    def test_a_second_apart_is_no_finding(self):
        assert check_clocks(probes(0.5, -0.5, 0)).outcome is CheckOutcome.OK

    def test_the_node_whose_clock_is_unlike_the_others_is_named(self):
        (finding,) = check_clocks(probes(0, HOUR_SECONDS, 0)).findings
        assert finding.startswith("the clock of ch-2:9000 is at least 3,600.0 s ahead of that of ")

    def test_the_worker_is_named_where_all_nodes_agree(self):
        (finding,) = check_clocks(probes(60, 60, 60)).findings
        assert finding.startswith("the clock of this machine is at least 60.0 s behind that of ch-")

    def test_how_long_an_answer_took_is_no_difference(self):
        assert check_clocks(probes(30, 0, 0, took_seconds=80)).findings == ()

    def test_a_single_server_is_compared_with_the_worker(self):
        assert len(check_clocks(probes(-HOUR_SECONDS)).findings) == 1

    def test_a_nodes_time_lies_between_question_and_answer(self):
        answers = {ONE: TimedAnswer([("26.9.2.1", "me", 1060.0)], 1000.0, 4.0), TWO: TimedAnswer(DOWN, 1000.0, 1.0)}
        up, down = drive(probe_nodes((ONE, TWO)), answers).result
        assert (up[ONE].clock, down) == (Clock(56.0, 60.0), {TWO: DOWN})


class TestVersions:
    def test_one_that_is_not_supported_is_a_finding(self):
        assert (
            "below 25.8, the lowest supported: upgrade it" in check_versions(probes(0, version="25.3.1.2")).findings[0]
        )

    def test_different_ones_are_a_finding(self):
        mixed = probes(0, 0, 0)
        mixed[TWO] = replace(mixed[TWO], version="26.8.1.1")
        (finding,) = check_versions(mixed).findings
        assert "26.9.2.1 on ch-1:9000, ch-3:9000, 26.8.1.1 on ch-2:9000: install the same version on all" in finding
