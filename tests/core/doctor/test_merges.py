"""The doctor on many parts, mutations and broken parts."""

from __future__ import annotations

from airflow_provider_chs3.core.doctor.merges import check_backlog
from airflow_provider_chs3.core.doctor.report import CheckOutcome
from airflow_provider_chs3.exceptions import ClickHouseConnectionError
from tests.core.surroundings import ONE, TWO
from tests.support.driving import drive, server_error

DOWN = ClickHouseConnectionError("Connection refused", "ch-2:9000")
LIMITS = [
    ("parts_to_delay_insert", "1000"),
    ("parts_to_throw_insert", "3000"),
    ("max_avg_part_size_for_too_many_parts", str(1024**3)),
]


class TestBacklog:
    def findings(self, *, parts=3, size_bytes=10**6, mutations=(), broken=()):
        row = (1, [("taxi", "trips", "202610", parts, size_bytes)], LIMITS, list(mutations), list(broken))
        return drive(check_backlog((ONE,)), {ONE: [row]}).result.findings

    def test_few_parts_are_none(self):
        assert self.findings() == ()

    def test_many_parts_are_one(self):
        (finding,) = self.findings(parts=600)
        assert "ch-1:9000: partition 202610 of taxi.trips has 600 parts; inserts are slowed down at 1000" in finding

    def test_many_large_parts_are_none_as_their_number_slows_down_nothing(self):
        assert self.findings(parts=600, size_bytes=600 * 2 * 1024**3) == ()

    def test_a_mutation_that_failed_is_one_and_one_that_waits_is_none(self):
        (finding,) = self.findings(
            mutations=[("taxi", "trips", "DELETE", "no\nstack"), ("taxi", "trips", "UPDATE", "")]
        )
        assert finding == ("ch-1:9000: mutation DELETE of taxi.trips failed: no; fix its cause, or KILL MUTATION.")

    def test_broken_parts_are_one(self):
        assert "2 parts of taxi.trips were broken" in self.findings(broken=[("taxi", "trips", 2)])[0]

    def test_a_node_that_does_not_answer_is_one_and_the_others_are_looked_at(self):
        row = (1, [], LIMITS, [], [])
        check = drive(check_backlog((ONE, TWO)), {ONE: [row], TWO: DOWN}).result
        assert check.summary.startswith("1 run")
        assert check.findings == (
            "ch-2:9000: no answer: Connection refused. Check that it is up and reachable from here.",
        )

    def test_what_the_user_may_not_see_is_left_out(self):
        check = drive(check_backlog((ONE,)), {ONE: server_error(497, "grant SELECT ON system.merges")}).result
        assert (check.outcome, check.findings) == (CheckOutcome.SKIPPED, ())
        assert "system.merges" in check.skipped
