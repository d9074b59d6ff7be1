"""What the doctor makes of what nodes say: findings, and what is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_chs3.core.cluster.node_capacity import NodeNow
from airflow_provider_chs3.core.cluster.topology import Place
from airflow_provider_chs3.core.doctor.disks import check_room, judge_replicas
from airflow_provider_chs3.core.doctor.merges import check_backlog
from airflow_provider_chs3.core.doctor.node_capacity import check_specs, find_sizes
from airflow_provider_chs3.core.doctor.nodes import Clock, Pulse, check_clocks, check_versions, take_pulse
from airflow_provider_chs3.core.doctor.privileges import PURPOSES, check_rights, privileges_by_purpose
from airflow_provider_chs3.core.doctor.report import Check, Outcome
from airflow_provider_chs3.core.preflight.privileges import Needed
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.values.models import NodeSpec, TableName
from airflow_provider_chs3.core.workflow.fan_out import leniently
from airflow_provider_chs3.core.workflow.operations import AskNodes, Timed
from airflow_provider_chs3.exceptions import ClickHouseConnectionError
from tests.core.driving import drive, server_error
from tests.core.surroundings import FACTS, ONE, THREE, TWO, surroundings

NODES = (ONE, TWO, THREE)
DOWN = ClickHouseConnectionError("Connection refused", "ch-2:9000")
HOUR_SECONDS = 3600.0


def pulses(*ahead_seconds, took_seconds=0.01, version="26.9.2.1"):
    return {
        node: Pulse(
            version=version,
            user="loader",
            seconds=took_seconds,
            clock=Clock(ahead - took_seconds / 2, ahead + took_seconds / 2),
        )
        for node, ahead in zip(NODES, ahead_seconds, strict=False)
    }


class TestClocks:
    def test_a_second_apart_is_no_finding(self):
        assert check_clocks(pulses(0.5, -0.5, 0)).outcome is Outcome.WELL

    def test_the_node_whose_clock_is_unlike_the_others_is_named(self):
        (finding,) = check_clocks(pulses(0, HOUR_SECONDS, 0)).findings
        assert finding.startswith("the clock of ch-2:9000 is at least 3,600.0 s ahead of that of ")

    def test_the_worker_is_named_where_all_nodes_agree(self):
        (finding,) = check_clocks(pulses(60, 60, 60)).findings
        assert finding.startswith("the clock of this machine is at least 60.0 s behind that of ch-")

    def test_how_long_an_answer_took_is_no_difference(self):
        assert check_clocks(pulses(30, 0, 0, took_seconds=80)).findings == ()

    def test_a_single_server_is_compared_with_the_worker(self):
        assert len(check_clocks(pulses(-HOUR_SECONDS)).findings) == 1

    def test_a_nodes_time_lies_between_question_and_answer(self):
        answers = {ONE: Timed([("26.9.2.1", "me", 1060.0)], 1000.0, 4.0), TWO: Timed(DOWN, 1000.0, 1.0)}
        up, down = drive(take_pulse((ONE, TWO)), answers).result
        assert (up[ONE].clock, down) == (Clock(56.0, 60.0), {TWO: DOWN})


class TestVersions:
    def test_one_that_is_not_supported_is_a_finding(self):
        assert (
            "below 25.8, the lowest supported: upgrade it" in check_versions(pulses(0, version="25.3.1.2")).findings[0]
        )

    def test_different_ones_are_a_finding(self):
        mixed = pulses(0, 0, 0)
        mixed[TWO] = replace(mixed[TWO], version="26.8.1.1")
        (finding,) = check_versions(mixed).findings
        assert "26.9.2.1 on ch-1:9000, ch-3:9000, 26.8.1.1 on ch-2:9000: bring all to one" in finding


USERS = {ONE: "me", TWO: "me"}
NEEDED = {
    "load": Needed(("A ON x", "B ON y"), ("C ON t",)),
    "plan": Needed(("B ON y",)),
    "page": Needed(("D ON z",)),
}


class TestRights:
    def found(self, granted, *, purposes=("load",), has_table=True):
        def answer(step):
            asked = {node: sql.text.removeprefix("CHECK GRANT ").split(", ") for node, sql in step.sql.items()}
            return {node: [(int(set(each) <= granted[node]),)] for node, each in asked.items()}

        steps = check_rights(USERS, NEEDED, purposes=purposes, has_table=has_table)
        try:
            step = next(steps)
            while True:
                step = steps.send(answer(step))
        except StopIteration as done:
            return done.value

    def test_what_is_missing_names_who_needs_it_and_the_grant(self):
        all_but_b = {"A ON x", "C ON t", "D ON z"}
        check = self.found({ONE: all_but_b, TWO: all_but_b})
        assert check.findings == (
            "ch-1:9000, ch-2:9000: user 'me' lacks what load, plan need: run GRANT B ON y TO `me` there.",
        )
        assert check.summary == "all that is needed for: page"

    def test_what_the_user_is_not_for_is_a_remark(self):
        check = self.found({ONE: {"A ON x", "B ON y", "C ON t"}, TWO: {"A ON x", "B ON y", "C ON t", "D ON z"}})
        assert (check.findings, check.outcome) == ((), Outcome.WELL)
        assert check.remarks == ("ch-1:9000: user 'me' lacks what page needs: run GRANT D ON z TO `me` there.",)

    def test_without_a_table_nothing_is_asked_about_tables(self):
        on_servers = {"A ON x", "B ON y", "D ON z"}
        check = self.found({ONE: on_servers, TWO: on_servers}, has_table=False)
        assert (check.findings, check.remarks) == ((), ())

    def test_every_purpose_has_its_privileges(self):
        place = Place(cluster="c", target=TableName("taxi", "trips"), ledger=TableName("taxi", "l"), nodes=(ONE,))
        needed = privileges_by_purpose(place, named_collection=None, is_replicated=True)
        assert set(needed) == set(PURPOSES)
        assert "SELECT ON system.replicas" in needed["load"].every


AROUND = surroundings(FACTS, FACTS, nodes=(ONE, TWO))
NOW = dict.fromkeys((ONE, TWO), NodeNow(physical_memory_bytes=32 * 1024**3))


class TestSpecs:
    def check(self, declared, addresses=()):
        sizes = find_sizes(AROUND, NOW, declared)
        return check_specs(sizes, AROUND, cluster_nodes=(ONE, TWO), declared=declared, addresses=addresses)

    def test_measured_ones_are_right(self):
        check = self.check({})
        assert (check.summary, check.findings) == ("8 cores, 32.0 GiB (measured)", ())

    def test_a_wrong_one_hides_no_other_node(self):
        check = self.check({"ch-2": NodeSpec(64, 1024**3), "default": NodeSpec(4, 16 * 1024**3)})
        assert len(check.findings) == 1
        assert "ch-2:9000: connection's node_specs declare 64 cores, but the machine has 8" in check.findings[0]
        assert check.summary == "4 cores, 16.0 GiB (connection's node_specs)"
        assert "leave 4 of 8 cores and 16.0 GiB of 32.0 GiB alone" in check.remarks[0]

    def test_names_that_mean_no_node_are_findings(self):
        findings = self.check({"ch-9": NodeSpec(4, 1024**3)}, addresses=("10.0.0.1:9000",)).findings
        assert "node_specs speak of 'ch-9', which is no node of the cluster" in findings[0]
        assert "node_addresses speak of '10.0.0.1:9000', which is no node" in findings[1]


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
        assert finding == ("ch-1:9000: mutation DELETE of taxi.trips failed: no; mend its cause, or KILL MUTATION.")

    def test_broken_parts_are_one(self):
        assert "2 parts of taxi.trips were broken" in self.findings(broken=[("taxi", "trips", 2)])[0]

    def test_a_node_that_does_not_answer_is_one_and_the_others_are_looked_at(self):
        row = (1, [], LIMITS, [], [])
        check = drive(check_backlog((ONE, TWO)), {ONE: [row], TWO: DOWN}).result
        assert check.summary.startswith("1 run")
        assert check.findings == (
            "ch-2:9000: no answer: Connection refused. Look whether it is up, and reached from here.",
        )

    def test_what_the_user_may_not_see_is_left_out(self):
        check = drive(check_backlog((ONE,)), {ONE: server_error(497, "grant SELECT ON system.merges")}).result
        assert (check.outcome, check.findings) == (Outcome.LEFT_OUT, ())
        assert "system.merges" in check.left_out


@pytest.mark.parametrize(("free_bytes", "count"), [(50, 0), (9, 1)])
def test_a_disk_with_less_than_a_tenth_free_is_a_finding(free_bytes, count):
    check, free = drive(check_room((ONE,)), {ONE: [("default", free_bytes, 100)]}).result
    assert (len(check.findings), free) == (count, {ONE: free_bytes})


@pytest.mark.parametrize(
    ("replica", "match"),
    [
        ((1, 1, 0, 0), "has lost its session with Keeper"),
        ((1, 0, 0, 0), "is read-only: look at Keeper"),
        ((0, 0, 301, 5), "lags 301 s behind"),
    ],
)
def test_a_replica_that_does_not_follow_is_a_finding(replica, match):
    check = judge_replicas({ONE: [("taxi", "trips", 0, 0, 12, 3)], TWO: [("taxi", "trips", *replica)]})
    assert len(check.findings) == 1
    assert check.findings[0].startswith("ch-2:9000: the replica of taxi.trips ")
    assert match in check.findings[0]


def test_where_nothing_is_replicated_that_is_said():
    assert judge_replicas({ONE: []}).summary == "no table is replicated"


def test_a_workflow_goes_on_with_the_nodes_that_answer():
    def workflow():
        return (yield AskNodes(name="ask", sql=dict.fromkeys((ONE, TWO), Sql("SELECT 1"))))

    errors = {}
    assert drive(leniently(workflow(), errors), {ONE: [(1,)], TWO: DOWN}).result == {ONE: [(1,)]}
    assert errors == {TWO: DOWN}


def test_an_error_that_several_nodes_have_is_one_line():
    check = Check(name="x").with_errors(dict.fromkeys((ONE, TWO), server_error(241, "no\nmemory")))
    assert len(check.findings) == 1
    assert check.findings[0].startswith("ch-1:9000, ch-2:9000: ClickHouse error 241: no memory. Give loads more memory")
