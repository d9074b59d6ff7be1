"""How much of what a node has one load takes."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.files.describe_files import DataVolume
from airflow_provider_chs3.core.model.models import NodeSpec
from airflow_provider_chs3.core.target.node_capacity import NodeNow
from airflow_provider_chs3.core.tuning.resource_share import ShareOptions, resource_share_of, smallest
from airflow_provider_chs3.exceptions import ConfigurationError

GIB = 1024**3
LARGE = DataVolume(share_bytes=1000 * GIB)


class TestSlices:
    SPEC = NodeSpec(8, 32 * GIB)

    def test_nodes_are_as_good_as_the_smallest(self):
        assert smallest([NodeSpec(8, 16 * GIB), NodeSpec(4, 32 * GIB)]) == NodeSpec(4, 16 * GIB)

    @pytest.mark.parametrize(("periods", "cores", "memory_gib"), [(1, 8, 16), (2, 4, 8), (4, 2, 4), (16, 1, 1)])
    def test_are_a_periods_part_of_cores_and_memory(self, periods, cores, memory_gib):
        one = resource_share_of(self.SPEC, ShareOptions(parallel_loads=periods), LARGE)
        assert (one.cores, one.memory_bytes) == (cores, memory_gib * GIB)

    @pytest.mark.parametrize(("cores", "periods"), [(1, 1), (2, 2), (3, 3), (8, 2), (64, 2)])
    def test_are_as_many_as_keep_all_cores_busy(self, cores, periods):
        assert resource_share_of(NodeSpec(cores, 32 * GIB), ShareOptions(), LARGE).parallel_loads == periods

    def test_are_one_where_a_period_is_small(self):
        assert resource_share_of(self.SPEC, ShareOptions(), DataVolume(share_bytes=GIB)).parallel_loads == 1

    def test_other_inserts_make_them_smaller(self):
        one = resource_share_of(self.SPEC, ShareOptions(parallel_loads=2), LARGE, [NodeNow(inserts=3), NodeNow()])
        assert (one.parallel_loads, one.notes) == (4, ("this load takes 1/4, as other inserts are running (3)",))

    def test_the_periods_that_share_a_node_anyway_do_not(self):
        one = resource_share_of(self.SPEC, ShareOptions(parallel_loads=2), LARGE, [NodeNow(inserts=1)])
        assert (one.parallel_loads, one.notes) == (2, ())

    def test_memory_in_use_makes_them_smaller(self):
        one = resource_share_of(
            self.SPEC, ShareOptions(parallel_loads=1), LARGE, [NodeNow(memory_in_use_bytes=24 * GIB)]
        )
        assert one.memory_bytes == 8 * GIB
        assert "other queries use 24.0 GiB, which leaves 8.0 GiB" in one.notes[0]

    def test_nothing_in_use_makes_them_larger(self):
        one = resource_share_of(self.SPEC, ShareOptions(parallel_loads=1), LARGE, [NodeNow(memory_in_use_bytes=GIB)])
        assert one.memory_bytes == 16 * GIB

    def test_a_full_node_leaves_a_quarter(self):
        one = resource_share_of(
            self.SPEC, ShareOptions(parallel_loads=1), LARGE, [NodeNow(memory_in_use_bytes=40 * GIB)]
        )
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
        now = [NodeNow(query_memory_bytes=profile) for profile in profiles]
        one = resource_share_of(NodeSpec(8, memory_bytes), ShareOptions(parallel_loads=4), LARGE, now)
        assert one.limit_bytes == limit_bytes

    @pytest.mark.parametrize(
        ("memory_gib", "periods", "told"),
        [
            (2, 12, "12 at a time need more than the 1073741824 that loads may use: load 6 at a time"),
            (0.25, 1, "use: allow"),
        ],
        ids=["too many periods", "too little memory for any"],
    )
    def test_that_hold_no_load_however_small_its_blocks_say_so(self, memory_gib, periods, told):
        one = resource_share_of(NodeSpec(2, int(memory_gib * GIB)), ShareOptions(parallel_loads=periods), LARGE)
        assert (len(one.notes), told in one.notes[0]) == (1, True)

    @pytest.mark.parametrize(
        ("memory_gib", "periods", "data"),
        [
            (32, 2, LARGE),
            (32, 48, LARGE),
            (2, 6, LARGE),
            (0, 12, LARGE),
            (2, 12, DataVolume(share_bytes=GIB // 12 // 3)),
            (2, 12, DataVolume(share_bytes=0)),
        ],
        ids=["usual", "many", "just so", "memory is not known", "small periods", "no rows"],
    )
    def test_that_hold_a_load_say_nothing(self, memory_gib, periods, data):
        assert resource_share_of(NodeSpec(2, memory_gib * GIB), ShareOptions(parallel_loads=periods), data).notes == ()

    @pytest.mark.parametrize("wrong", [{"memory_share": 0}, {"memory_share": 1.1}, {"parallel_loads": 0}])
    def test_what_is_out_of_range_is_refused(self, wrong):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            ShareOptions(**wrong)
