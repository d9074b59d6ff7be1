"""The doctor on declared cores and memory."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_chs3.core.doctor.node_capacity import check_specs, find_sizes
from airflow_provider_chs3.core.model.models import NodeSpec
from airflow_provider_chs3.core.target.node_capacity import NodeNow
from tests.core.surroundings import FACTS, ONE, TWO, surroundings

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
        assert "leave 4 of 8 cores and 16.0 GiB of 32.0 GiB unused" in check.remarks[0]

    def test_one_that_leaves_only_cores_alone_leaves_no_memory(self):
        (remark, _) = self.check({"default": NodeSpec(4, 32 * 1024**3)}).remarks
        assert remark == "ch-1:9000: connection's node_specs leave 4 of 8 cores and 0 bytes of 32.0 GiB unused"

    def test_one_that_leaves_only_memory_alone_uses_all_cores(self):
        (remark, _) = self.check({"default": NodeSpec(8, 16 * 1024**3)}).remarks
        assert remark == ("ch-1:9000: connection's node_specs use all 8 cores, and leave 16.0 GiB of 32.0 GiB unused")

    def test_one_on_a_server_without_a_limit_leaves_only_cores_alone(self):
        context = surroundings(replace(FACTS, measured=NodeSpec(8, 0)), nodes=(ONE,))
        declared = {"default": NodeSpec(4, 1024**3)}
        sizes = find_sizes(context, {ONE: NodeNow()}, declared)
        check = check_specs(sizes, context, cluster_nodes=(ONE,), declared=declared, addresses=())
        assert check.remarks == ("ch-1:9000: connection's node_specs leave 4 of 8 cores unused",)

    def test_names_that_mean_no_node_are_findings(self):
        findings = self.check({"ch-9": NodeSpec(4, 1024**3)}, addresses=("10.0.0.1:9000",)).findings
        assert "node_specs names 'ch-9', which is not a node of the cluster" in findings[0]
        assert "node_addresses names '10.0.0.1:9000', which is not a node" in findings[1]
