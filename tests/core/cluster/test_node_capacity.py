"""What a node has for loads, who says so, and how much of it one load takes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_provider_chs3.core.cluster.node_capacity import Disk, NodeNow, SizedNode, ask_nodes_now, size_nodes
from airflow_provider_chs3.core.files.data_volume import DataShape, row_width_bytes, shape_of
from airflow_provider_chs3.core.files.file_groups import Reading
from airflow_provider_chs3.core.files.loaded_columns import FileGroup
from airflow_provider_chs3.core.source.file_set import Files
from airflow_provider_chs3.core.source.formats import format_named
from airflow_provider_chs3.core.source.key_template import KeyTemplate
from airflow_provider_chs3.core.source.s3_source import Credentials, S3Source
from airflow_provider_chs3.core.tuning.resource_share import Share, slice_of, smallest
from airflow_provider_chs3.core.values.merge_tree_limits import Limits
from airflow_provider_chs3.core.values.models import Manifest, NodeSpec, S3Object
from airflow_provider_chs3.exceptions import ConfigurationError
from tests.core.driving import drive
from tests.core.surroundings import FACTS, ONE, THREE, TWO, surroundings

GIB = 1024**3
LARGE = DataShape(share_bytes=1000 * GIB)
SERVER_LIMITS = [(name, "77") for name in Limits.__slots__]


def sized(facts=FACTS, *, argument=None, connection=None, now=None):
    around = surroundings(facts, nodes=(ONE,))
    return size_nodes(around, {ONE: now or NodeNow()}, argument=argument or {}, connection=connection or {})[ONE]


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
        wanted = "Node ch-1:9000: operator's node_specs declare 9 cores, but the machine has 8: correct it."
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
            "1 cores, 32.00 GiB (operator's node_specs; 64.00 GiB declared, capped at the server's limit "
            "max_server_memory_usage)"
        )

    def test_every_node_that_is_wrong_is_named(self):
        around = surroundings()
        now = dict.fromkeys(around.nodes, NodeNow())
        with pytest.raises(ConfigurationError) as raised:
            size_nodes(around, now, argument={"ch-1": NodeSpec(9, 1), "ch-3": NodeSpec(10, 1)}, connection={})
        assert (str(ONE) in str(raised.value), str(TWO) in str(raised.value), str(THREE) in str(raised.value)) == (
            True,
            False,
            True,
        )

    def test_a_server_without_a_limit_caps_nothing(self):
        facts = replace(FACTS, measured=NodeSpec(8, 0))
        assert sized(facts, argument={"default": NodeSpec(1, 64 * GIB)}).spec.memory_bytes == 64 * GIB


class TestWhatIsThere:
    ROW = (5, 2, 7.0, [("s3", "ObjectStorage", 9)], ["db.v"], 40, [(30, 600)], SERVER_LIMITS, 11)

    def asked(self, **facts):
        around = surroundings(replace(FACTS, **facts), nodes=(ONE,))
        return drive(ask_nodes_now(around, partition_id="202610"), {ONE: [self.ROW]})

    def test_is_asked_of_all_nodes_at_once(self):
        driven = drive(
            ask_nodes_now(surroundings(), partition_id="202610"), {node: [self.ROW] for node in (ONE, TWO, THREE)}
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
        assert "partition_id != '202610'" in driven.steps[0].sql[ONE].text

    @pytest.mark.parametrize("has_metrics", [False, True])
    def test_the_machines_memory_is_asked_where_the_server_has_metrics(self, has_metrics):
        driven = self.asked(has_metrics=has_metrics)
        assert ("asynchronous_metrics" in driven.steps[0].sql[ONE].text) is has_metrics


class TestSlices:
    SPEC = NodeSpec(8, 32 * GIB)

    def test_nodes_are_as_good_as_the_smallest(self):
        assert smallest([NodeSpec(8, 16 * GIB), NodeSpec(4, 32 * GIB)]) == NodeSpec(4, 16 * GIB)

    @pytest.mark.parametrize(("months", "cores", "memory_gib"), [(1, 8, 16), (2, 4, 8), (4, 2, 4), (16, 1, 1)])
    def test_are_a_months_part_of_cores_and_memory(self, months, cores, memory_gib):
        one = slice_of(self.SPEC, Share(parallel_months=months), LARGE)
        assert (one.cores, one.memory_bytes) == (cores, memory_gib * GIB)

    @pytest.mark.parametrize(("cores", "months"), [(1, 1), (2, 2), (3, 3), (8, 2), (64, 2)])
    def test_are_as_many_as_keep_all_cores_busy(self, cores, months):
        assert slice_of(NodeSpec(cores, 32 * GIB), Share(), LARGE).parallel_months == months

    def test_are_one_where_a_month_is_small(self):
        assert slice_of(self.SPEC, Share(), DataShape(share_bytes=GIB)).parallel_months == 1

    def test_other_inserts_make_them_smaller(self):
        one = slice_of(self.SPEC, Share(parallel_months=2), LARGE, [NodeNow(inserts=3), NodeNow()])
        assert (one.parallel_months, one.notes) == (4, ("beside other inserts (3) this one takes 1/4",))

    def test_the_months_that_share_a_node_anyway_do_not(self):
        one = slice_of(self.SPEC, Share(parallel_months=2), LARGE, [NodeNow(inserts=1)])
        assert (one.parallel_months, one.notes) == (2, ())

    def test_memory_in_use_makes_them_smaller(self):
        one = slice_of(self.SPEC, Share(parallel_months=1), LARGE, [NodeNow(memory_in_use_bytes=24 * GIB)])
        assert one.memory_bytes == 8 * GIB
        assert f"other queries hold {24 * GIB} bytes" in one.notes[0]

    def test_nothing_in_use_makes_them_larger(self):
        one = slice_of(self.SPEC, Share(parallel_months=1), LARGE, [NodeNow(memory_in_use_bytes=GIB)])
        assert one.memory_bytes == 16 * GIB

    def test_a_full_node_leaves_a_quarter(self):
        one = slice_of(self.SPEC, Share(parallel_months=1), LARGE, [NodeNow(memory_in_use_bytes=40 * GIB)])
        assert one.memory_bytes == 4 * GIB

    @pytest.mark.parametrize(
        ("memory_bytes", "profiles", "limit_bytes"),
        [
            (32 * GIB, (), 16 * GIB),
            (32 * GIB, (0, 20 * GIB), 16 * GIB),
            (32 * GIB, (0, 10 * GIB), 10 * GIB),
            (GIB // 4, (), GIB // 4),
            (0, (10 * GIB,), 0),
        ],
        ids=["the share", "a profile's is higher", "a profile's is lower", "hardly any", "not known"],
    )
    def test_no_load_takes_more_than_all_may(self, memory_bytes, profiles, limit_bytes):
        now = [NodeNow(query_memory_bytes=each) for each in profiles]
        one = slice_of(NodeSpec(8, memory_bytes), Share(parallel_months=4), LARGE, now)
        assert one.limit_bytes == limit_bytes

    @pytest.mark.parametrize(
        ("memory_gib", "months", "told"),
        [
            (2, 12, "12 at a time more than the 1073741824 that loads may have: load 6 at a time"),
            (0.25, 1, "have: give"),
        ],
        ids=["too many months", "too little memory for any"],
    )
    def test_that_hold_no_load_however_small_its_blocks_say_so(self, memory_gib, months, told):
        one = slice_of(NodeSpec(2, int(memory_gib * GIB)), Share(parallel_months=months), LARGE)
        assert (len(one.notes), told in one.notes[0]) == (1, True)

    @pytest.mark.parametrize(
        ("memory_gib", "months", "data"),
        [
            (32, 2, LARGE),
            (32, 48, LARGE),
            (2, 6, LARGE),
            (0, 12, LARGE),
            (2, 12, DataShape(share_bytes=GIB // 12 // 3)),
            (2, 12, DataShape(share_bytes=0)),
        ],
        ids=["usual", "many", "just so", "memory is not known", "small months", "no rows"],
    )
    def test_that_hold_a_load_say_nothing(self, memory_gib, months, data):
        assert slice_of(NodeSpec(2, memory_gib * GIB), Share(parallel_months=months), data).notes == ()

    @pytest.mark.parametrize("wrong", [{"memory_share": 0}, {"memory_share": 1.1}, {"parallel_months": 0}])
    def test_what_is_out_of_range_is_refused(self, wrong):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            Share(**wrong)


class TestTheShapeOfTheData:
    @staticmethod
    def files(file_format, *keys, size_bytes=600, compression="auto"):
        objects = [S3Object(f"b/{key}", size_bytes, "e", datetime(2026, 11, 1, tzinfo=UTC)) for key in keys]
        source = S3Source(
            bucket="bucket", template=KeyTemplate("{YYYY-MM}/"), endpoint_url="", credentials=Credentials()
        )
        return Files(source, Manifest.of(objects), format_named(file_format), compression, "c")

    @pytest.mark.parametrize(
        ("file_format", "key", "share"),
        [("CSV", "a.csv", 600), ("CSV", "a.csv.gz", 1800), ("CSV", "a.csv.lz4", 1200), ("JSONEachRow", "a.jsonl", 300)],
    )
    def test_text_is_estimated_from_size_and_compression(self, file_format, key, share):
        reading = Reading(())
        shape = shape_of(self.files(file_format, key), reading, nodes=1, is_on_remote_disk=False)
        assert (shape.share_bytes, shape.is_text) == (share, True)

    def test_a_compression_that_is_given_counts(self):
        files = self.files("CSV", "a", compression="xz")
        shape = shape_of(files, Reading(()), nodes=1, is_on_remote_disk=False)
        assert shape.share_bytes == 2400

    def test_parquets_footers_tell_bytes_and_rows(self):
        reading = Reading((FileGroup({"a": "Nullable(UInt64)"}, ()),), rows=30, uncompressed_bytes=900)
        shape = shape_of(self.files("Parquet", "a", "b", "c"), reading, nodes=3, is_on_remote_disk=True)
        assert (shape.share_bytes, shape.share_rows, shape.files_per_node) == (300, 10, 1)

    def test_values_take_at_least_their_width_in_memory(self):
        reading = Reading((FileGroup({"a": "Nullable(UInt64)"}, ()),), rows=300, uncompressed_bytes=900)
        assert shape_of(self.files("Parquet", "a"), reading, nodes=1, is_on_remote_disk=False).share_bytes == 2400

    @pytest.mark.parametrize(
        ("column_type", "width"),
        [("UInt8", 1), ("Nullable(Int128)", 16), ("LowCardinality(Nullable(String))", 8), ("DateTime64(3, 'UTC')", 8)],
    )
    def test_a_type_has_a_width(self, column_type, width):
        assert row_width_bytes({"a": column_type}) == width
