"""The capacity of a node for loads, and who says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_chs3.core.model.models import NodeSpec
from airflow_provider_chs3.core.target.node_capacity import Disk, Limits, NodeNow, SizedNode, ask_nodes_now, size_nodes
from airflow_provider_chs3.exceptions import ConfigurationError
from tests.core.surroundings import FACTS, ONE, THREE, TWO, surroundings
from tests.support.driving import drive

GIB = 1024**3
SERVER_LIMITS = [(name, "77") for name in Limits.__slots__]


def sized(facts=FACTS, *, argument=None, connection=None, now=None):
    context = surroundings(facts, nodes=(ONE,))
    return size_nodes(context, {ONE: now or NodeNow()}, argument=argument or {}, connection=connection or {})[ONE]


class TestSources:
    HERE, THERE = NodeSpec(2, GIB), NodeSpec(4, 2 * GIB)

    def test_what_nobody_declares_is_measured(self):
        assert sized() == SizedNode(NodeSpec(8, 32 * GIB), "measured")

    @pytest.mark.parametrize("name", ["default", "ch-1", "ch-1:9000"])
    def test_a_spec_goes_by_host_address_or_default(self, name):
        assert sized(argument={name: self.HERE}) == SizedNode(self.HERE, "operator's node_specs")

    def test_the_nearest_name_wins(self):
        specs = {"default": self.THERE, "ch-1": self.THERE, "ch-1:9000": self.HERE}
        assert sized(argument=specs).spec == self.HERE

    def test_the_operators_default_wins_over_the_connections_host(self):
        assert sized(argument={"default": self.HERE}, connection={"ch-1": self.THERE}).spec == self.HERE

    def test_macros_are_taken_where_nobody_else_declares_anything(self):
        facts = replace(FACTS, macros={"cores": "2", "memory": "1GiB"})
        assert sized(facts) == SizedNode(self.HERE, "its macros")

    def test_what_macros_do_not_say_is_measured(self):
        assert sized(replace(FACTS, macros={"cores": "2"})) == SizedNode(
            NodeSpec(2, 32 * GIB), "its macros, memory measured"
        )

    @pytest.mark.parametrize("macros", [{"cores": "many"}, {"cores": "0"}, {"memory": "much"}])
    def test_macros_that_cannot_be_read_are_told(self, macros):
        with pytest.raises(ConfigurationError, match="Node ch-1:9000: its macros"):
            sized(replace(FACTS, macros=macros))


class TestLimits:
    def test_more_cores_than_the_machine_has_are_refused(self):
        wanted = "Node ch-1:9000: operator's node_specs declare 9 cores, but the machine has 8: correct them."
        with pytest.raises(ConfigurationError, match=wanted):
            sized(argument={"default": NodeSpec(9, GIB)})

    def test_more_memory_than_the_machine_has_is_refused(self):
        with pytest.raises(
            ConfigurationError, match=f"declare {65 * GIB} bytes of memory, but the machine has {64 * GIB}"
        ):
            sized(argument={"default": NodeSpec(1, 65 * GIB)}, now=NodeNow(physical_memory_bytes=64 * GIB))

    def test_memory_above_the_servers_limit_is_capped_and_that_is_said(self):
        each = sized(argument={"default": NodeSpec(1, 64 * GIB)})
        assert each.spec.memory_bytes == 32 * GIB
        assert str(each) == (
            "1 core, 32.0 GiB (operator's node_specs; 64.0 GiB declared, capped at the server's limit "
            "max_server_memory_usage)"
        )

    def test_every_node_that_is_wrong_is_named(self):
        context = surroundings()
        now = dict.fromkeys(context.nodes, NodeNow())
        with pytest.raises(ConfigurationError) as raised:
            size_nodes(context, now, argument={"ch-1": NodeSpec(9, 1), "ch-3": NodeSpec(10, 1)}, connection={})
        assert (str(ONE) in str(raised.value), str(TWO) in str(raised.value), str(THREE) in str(raised.value)) == (
            True,
            False,
            True,
        )

    def test_a_server_without_a_limit_caps_nothing(self):
        facts = replace(FACTS, measured=NodeSpec(8, 0))
        assert sized(facts, argument={"default": NodeSpec(1, 64 * GIB)}).spec.memory_bytes == 64 * GIB


class TestWhatIsThere:
    ROW = ([(5, 2)], 7.0, [("s3", "ObjectStorage", 9)], ["db.v"], [(40, (30, 600))], SERVER_LIMITS, 11)

    def asked(self, **facts):
        context = surroundings(replace(FACTS, **facts), nodes=(ONE,))
        return drive(ask_nodes_now(context, "partition_id = '202610'"), {ONE: [self.ROW]})

    def test_is_asked_of_all_nodes_at_once(self):
        driven = drive(
            ask_nodes_now(surroundings(), "partition_id = '202610'"), {node: [self.ROW] for node in (ONE, TWO, THREE)}
        )
        assert len(driven.steps) == 1
        assert set(driven.result) == {ONE, TWO, THREE}

    def test_is_what_runs_and_what_the_target_lies_on(self):
        now = self.asked().result[ONE]
        assert (now.memory_in_use_bytes, now.inserts, now.physical_memory_bytes) == (5, 2, 7)
        assert now.query_memory_bytes == 11
        assert (now.disks, now.views, now.is_on_remote_disk) == ((Disk("s3", "ObjectStorage", 9),), ("db.v",), True)

    def test_the_parts_are_those_of_other_partitions_with_the_tables_own_limits(self):
        target = replace(FACTS.target, engine_full="MergeTree ORDER BY at SETTINGS max_parts_in_total = 5")
        driven = self.asked(target=target)
        others = driven.result[ONE].others
        assert (others.parts, others.fullest_parts, others.fullest_bytes) == (40, 30, 600)
        assert (others.limits.max_parts_in_total, others.limits.parts_to_throw_insert) == (5, 77)
        assert "AND NOT (partition_id = '202610')" in driven.steps[0].sql[ONE].text

    @pytest.mark.parametrize("has_metrics", [False, True])
    def test_the_machines_memory_is_asked_where_the_server_has_metrics(self, has_metrics):
        driven = self.asked(system_tables={"asynchronous_metrics"} if has_metrics else ())
        assert ("asynchronous_metrics" in driven.steps[0].sql[ONE].text) is has_metrics
