"""The settings of a load, each with its reason."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.files.describe_files import DataVolume
from airflow_provider_chs3.core.model.models import NodeSpec, Setting
from airflow_provider_chs3.core.tuning.insert_settings import (
    DDL_SETTINGS,
    EXACT_NAMES,
    REQUIRED_SETTINGS,
    TUNED_NAMES,
    exact_names,
    load_settings,
    names_to_look_up,
    settings_table,
    tunable,
    tuned_settings,
    without_exact,
)
from airflow_provider_chs3.core.tuning.resource_share import ISOLATED, ShareOptions, resource_share_of
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.sources.s3.reading import S3

MIB = 1024**2
GIB = 1024**3
SPEC = NodeSpec(8, 32 * GIB)
#: More than fits into any node's memory, in files that are read in ranges.
LARGE = DataVolume(share_bytes=1000 * GIB, files_per_node=64, largest_file_bytes=GIB)
KNOWN = dict.fromkeys(names_to_look_up({"max_threads": 1, "s3_max_connections": 1}, S3))


def part(spec=SPEC, *, data=LARGE, share=0.5, periods=1):
    return resource_share_of(spec, ShareOptions(memory_share=share, parallel_loads=periods), data)


def settings_of(*, own=None, known=KNOWN, null_as_default=False, data=LARGE):
    return load_settings(
        share=part(), data=data, known=known, user_settings=own or {}, null_as_default=null_as_default, store=S3
    )


def values(**options):
    return {each.name: each.value for each in settings_of(**options)}


def tuned(spec=SPEC, *, data=LARGE, share=0.5, periods=1):
    return {
        setting.name: setting.value
        for setting in tuned_settings(part(spec, data=data, share=share, periods=periods), data)
    }


def threads_and_block(*arguments, **options):
    settings = tuned(*arguments, **options)
    return settings["max_insert_threads"], settings.get("min_insert_block_size_bytes")


class TestTheGuidesRule:
    @pytest.mark.parametrize(("cores", "memory_bytes", "threads"), [(8, 32 * GIB, 4), (16, 64 * GIB, 8)])
    def test_the_guides_examples_have_the_guides_numbers(self, cores, memory_bytes, threads):
        spec = NodeSpec(cores, memory_bytes)
        assert threads_and_block(spec, share=ISOLATED) == (threads, 2863311530)

    @pytest.mark.parametrize(("cores", "memory_bytes", "threads"), [(8, 32 * GIB, 4), (16, 64 * GIB, 8)])
    def test_they_have_them_for_parquet_too(self, cores, memory_bytes, threads):
        data = DataVolume(share_bytes=1000 * GIB, files_per_node=64, largest_file_bytes=GIB, is_parquet=True)
        assert threads_and_block(NodeSpec(cores, memory_bytes), share=ISOLATED, data=data) == (threads, 2863311530)

    @pytest.mark.parametrize(
        ("cores", "memory_bytes", "threads", "block_bytes"),
        [
            (8, 32 * GIB, 4, 1431655765),
            (2, 24 * GIB, 1, 4 * GIB),
            (1, 6 * GIB, 1, GIB),
            (3, 6 * GIB, 1, GIB),
            (64, 6 * 32 * GIB, 32, GIB),
        ],
    )
    def test_a_shared_node_gives_half_of_its_memory(self, cores, memory_bytes, threads, block_bytes):
        assert threads_and_block(NodeSpec(cores, memory_bytes)) == (threads, block_bytes)

    def test_without_a_known_memory_blocks_are_the_servers(self):
        assert threads_and_block(NodeSpec(8, 0)) == (4, None)

    def test_rows_do_not_close_a_block(self):
        assert values()["min_insert_block_size_rows"] == 0

    def test_the_server_does_not_lower_the_threads_again(self):
        assert values()["max_insert_threads_min_free_memory_per_thread"] == 0


class TestTheReadersMemory:
    PARQUET = DataVolume(share_bytes=1000 * GIB, is_parquet=True, largest_file_bytes=GIB)

    def test_is_part_of_the_share(self):
        settings = tuned(data=self.PARQUET)
        blocks = 3 * settings["max_insert_threads"] * settings["min_insert_block_size_bytes"]
        reader = settings["input_format_parquet_memory_high_watermark"]
        assert 16 * GIB - 12 <= blocks + reader <= 16 * GIB

    def test_is_at_most_the_servers_default(self):
        settings = tuned(NodeSpec(64, 512 * GIB), data=self.PARQUET)
        assert settings["input_format_parquet_memory_high_watermark"] == 4 * GIB

    def test_is_not_set_for_text(self):
        assert "input_format_parquet_memory_high_watermark" not in tuned()


class TestLittleData:
    @pytest.mark.parametrize(
        ("share_bytes", "block_bytes"), [(8 * GIB, GIB // 2), (4 * GIB, 256 * MIB), (10 * GIB, 640 * MIB)]
    )
    def test_is_cut_so_that_all_cores_have_work(self, share_bytes, block_bytes):
        assert threads_and_block(data=DataVolume(share_bytes=share_bytes)) == (8, block_bytes)

    def test_leaves_the_servers_blocks_where_larger_ones_would_leave_cores_idle(self):
        settings = tuned(data=DataVolume(share_bytes=100 * MIB))
        assert not {"min_insert_block_size_bytes", "min_insert_block_size_rows"} & settings.keys()

    def test_is_cut_by_rows_where_footers_tell_them(self):
        settings = tuned(data=DataVolume(share_bytes=8 * GIB, share_rows=48_000_001))
        assert settings["min_insert_block_size_rows"] == 3_000_001

    @pytest.mark.parametrize(("rows", "block_rows"), [(16_000_000, None), (18_000_000, 1_125_000)])
    def test_is_cut_into_no_more_parts_than_by_the_servers_limit_of_rows(self, rows, block_rows):
        settings = tuned(data=DataVolume(share_bytes=GIB, share_rows=rows))
        assert settings.get("min_insert_block_size_rows") == block_rows

    def test_is_cut_no_smaller_than_by_the_server_where_memory_is_small_too(self):
        settings = tuned(NodeSpec(2, GIB), data=DataVolume(share_bytes=50 * MIB, share_rows=600_000))
        blocks = settings["min_insert_block_size_bytes"], settings["min_insert_block_size_rows"]
        assert blocks == (GIB // 12, 1_048_449)

    def test_is_one_part_where_one_thread_inserts(self):
        data = DataVolume(share_bytes=100 * MIB, share_rows=2_000_000)
        settings = tuned(NodeSpec(2, 24 * GIB), data=data, periods=2)
        blocks = settings["min_insert_block_size_bytes"], settings["min_insert_block_size_rows"]
        assert (settings["max_insert_threads"], blocks) == (1, (2 * GIB, 0))

    @pytest.mark.parametrize(("periods", "block_rows"), [(1, 9_000_000), (16, 9_000_000), (60, 2_400_000)])
    def test_of_many_periods_is_cut_to_blocks_of_four(self, periods, block_rows):
        data = DataVolume(periods=periods, share_bytes=6 * GIB, share_rows=36_000_000)
        assert tuned(NodeSpec(2, 24 * GIB), data=data)["min_insert_block_size_rows"] == block_rows

    @pytest.mark.parametrize(("periods", "block_rows"), [(60, 200_000), (8, 1_048_449), (7, None)])
    def test_of_many_small_periods_is_cut_to_blocks_of_four_that_are_no_larger_than_the_servers(
        self, periods, block_rows
    ):
        data = DataVolume(periods=periods, share_bytes=200 * MIB, share_rows=3_000_000)
        assert tuned(NodeSpec(2, 24 * GIB), data=data).get("min_insert_block_size_rows") == block_rows

    def test_of_many_periods_is_cut_for_one_thread_too(self):
        data = DataVolume(periods=60, share_bytes=6 * GIB, share_rows=36_000_000)
        settings = tuned(NodeSpec(2, 24 * GIB), data=data, periods=2)
        assert (settings["max_insert_threads"], settings["min_insert_block_size_rows"]) == (1, 2_400_000)

    def test_is_cut_no_larger_than_the_memory_allows(self):
        assert threads_and_block(NodeSpec(2, GIB), data=DataVolume(share_bytes=100 * MIB)) == (2, GIB // 12)


class TestLittleMemory:
    TINY = NodeSpec(8, GIB)

    def test_takes_threads_before_blocks_get_tiny(self):
        assert threads_and_block(self.TINY) == (2, GIB // 12)

    def test_leaves_one_thread(self):
        assert threads_and_block(NodeSpec(8, 64 * MIB)) == (1, 64 * MIB // 6)

    def test_writes_one_part_after_the_other(self):
        assert tuned(self.TINY)["max_insert_delayed_streams_for_parallel_write"] == 1

    def test_is_not_met_where_there_is_enough(self):
        assert "max_insert_delayed_streams_for_parallel_write" not in tuned()


def test_a_target_on_s3_holds_few_unfinished_parts():
    data = DataVolume(share_bytes=1000 * GIB, is_on_remote_disk=True)
    assert tuned(data=data)["max_insert_delayed_streams_for_parallel_write"] == 4


def test_all_that_may_be_computed_is_looked_up():
    shapes = (
        LARGE,
        DataVolume(share_bytes=GIB, files_per_node=64, largest_file_bytes=MIB),
        DataVolume(share_bytes=1000 * GIB, is_parquet=True, largest_file_bytes=GIB, is_on_remote_disk=True),
    )
    specs = (NodeSpec(1, GIB), SPEC, NodeSpec(64, 256 * GIB))
    assert {name for spec in specs for data in shapes for name in tuned(spec, data=data)} == set(TUNED_NAMES)


class TestTheTable:
    def test_has_a_line_of_name_value_and_reason_for_each_setting(self):
        table = settings_table([Setting("a", 1, "as it is"), Setting("long", "read", "yours")])
        assert table == "  a        1  as it is\n  long  read  yours"

    def test_leaves_out_those_that_every_load_has(self):
        assert "insert_deduplicate" not in settings_table(without_exact(settings_of(), S3))


class TestUsersSettings:
    def test_win_over_tuned_ones(self):
        assert values(own={"max_insert_threads": 3})["max_insert_threads"] == 3

    def test_are_sent_beside_tuned_ones(self):
        sent = values(own={"s3_max_connections": 7})
        assert (sent["s3_max_connections"], sent["max_insert_threads"]) == (7, 4)

    def test_have_the_user_for_a_reason(self):
        settings = settings_of(own={"max_threads": 7})
        assert [setting.reason for setting in settings if setting.name == "max_threads"] == ["yours"]

    @pytest.mark.parametrize("name", sorted(exact_names(S3)))
    def test_cannot_make_a_load_inexact(self, name):
        with pytest.raises(
            ConfigurationError, match=f"settings: {name} cannot be changed, or loads would not be exact"
        ):
            values(own={name: 1, "max_threads": 2})

    @pytest.mark.parametrize("name", ["max_thread", "x; DROP TABLE y", ""])
    def test_that_a_node_does_not_know_are_told(self, name):
        with pytest.raises(ConfigurationError, match=f"settings: not known to every node of the cluster: {name}"):
            values(own={name: 1})


@pytest.mark.parametrize("name", ["deduplicate_insert", "max_threads", "min_insert_block_size_bytes"])
def test_what_a_node_does_not_know_is_left_out(name):
    assert name not in values(known={each: None for each in KNOWN if each != name})


@pytest.mark.parametrize(("highest", "value"), [(5, 5), (100, 8), (None, 8)])
def test_what_the_profile_bounds_is_no_higher(highest, value):
    assert values(known={**KNOWN, "max_threads": highest})["max_threads"] == value


def test_what_the_user_gives_is_left_to_the_server_to_refuse():
    assert values(own={"max_threads": 7}, known={**KNOWN, "max_threads": 5})["max_threads"] == 7


def test_every_setting_has_a_reason():
    settings = settings_of(own={"max_threads": 1})
    assert [setting.name for setting in settings if not setting.reason] == []


def test_every_setting_is_sent_once():
    settings = settings_of(own={"max_insert_threads": 1})
    names = [setting.name for setting in settings]
    assert len(names) == len(set(names))


class TestNamesToLookUp:
    @pytest.mark.parametrize("name", [*DDL_SETTINGS, *REQUIRED_SETTINGS, "max_insert_threads", "mine"])
    def test_hold_everything_that_may_be_sent(self, name):
        assert name in names_to_look_up({"mine": 1}, S3)

    def test_are_enough_for_all_settings_to_be_known(self):
        assert set(values()) <= set(names_to_look_up({}, S3))


class TestConnectionsSettings:
    def test_are_taken_over_where_a_load_is_free_to_choose(self):
        assert tunable({"max_threads": 4}, S3) == {"max_threads": 4}

    @pytest.mark.parametrize("name", sorted(exact_names(S3)))
    def test_are_left_out_where_it_is_not(self, name):
        assert tunable({name: 1}, S3) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("parallel_distributed_insert_select", 2),
        ("insert_deduplicate", 0),
        ("deduplicate_insert", "disable"),
        ("deduplicate_insert_select", "disable"),
        ("optimize_on_insert", 0),
        ("s3_throw_on_zero_files_match", 1),
        ("skip_unavailable_shards", 0),
        ("insert_quorum_parallel", 1),
        ("date_time_overflow_behavior", "throw"),
    ],
)
def test_they_are_always_sent(name, value):
    assert values(own={"max_threads": 1})[name] == value


def test_they_let_one_node_send_the_rows_where_a_sharding_key_is_followed():
    settings = load_settings(
        share=part(), data=LARGE, known=KNOWN, user_settings={}, null_as_default=False, by_sharding_key=True, store=S3
    )
    (distributed,) = [setting for setting in settings if setting.name == "parallel_distributed_insert_select"]
    assert (distributed.value, "sharding key" in distributed.reason) == (0, True)


@pytest.mark.parametrize("null_as_default", [False, True])
def test_they_say_what_becomes_of_null(null_as_default):
    assert values(null_as_default=null_as_default)["insert_null_as_default"] == int(null_as_default)


@pytest.mark.parametrize("name", ["insert_distributed_sync", "allow_experimental_parallel_reading_from_replicas"])
def test_they_are_sent_under_one_name(name):
    assert name not in values()


def test_those_that_the_nodes_must_know_are_among_them():
    assert set(REQUIRED_SETTINGS) <= EXACT_NAMES


class TestReading:
    @pytest.mark.parametrize(("periods", "threads"), [(1, 8), (2, 8), (3, 4), (8, 2)])
    def test_threads_are_twice_the_slice_and_at_most_all_cores(self, periods, threads):
        assert tuned(periods=periods)["max_threads"] == threads

    @pytest.mark.parametrize(
        ("files", "file_bytes", "periods", "threads"),
        [
            (96, 10 * MIB, 1, 32),
            (96, 10 * MIB, 2, 16),
            (36, 10 * MIB, 1, 12),
            (24, 10 * MIB, 1, 8),
            (96, 200 * MIB, 1, 10),
            (96, 300 * MIB, 1, 8),
        ],
        ids=["many", "of a slice", "three files each", "too few", "as many as fit into memory", "too large"],
    )
    def test_many_small_files_have_more_threads(self, files, file_bytes, periods, threads):
        data = DataVolume(share_bytes=files * file_bytes, files_per_node=files, largest_file_bytes=file_bytes)
        assert tuned(data=data, periods=periods)["max_threads"] == threads

    def test_nodes_of_many_cores_leave_s3_room_for_others(self):
        data = DataVolume(share_bytes=960 * MIB, files_per_node=960, largest_file_bytes=MIB)
        assert tuned(NodeSpec(32, 256 * GIB), data=data)["max_threads"] == 64

    def test_of_unknown_memory_has_no_more_threads(self):
        data = DataVolume(share_bytes=960 * MIB, files_per_node=96, largest_file_bytes=10 * MIB)
        assert tuned(NodeSpec(8, 0), data=data)["max_threads"] == 8

    @pytest.mark.parametrize(("size_bytes", "buffer"), [(MIB, 52428800), (100 * MIB, 52428800), (101 * MIB, None)])
    def test_a_small_file_is_one_download(self, size_bytes, buffer):
        data = DataVolume(share_bytes=GIB, files_per_node=64, largest_file_bytes=size_bytes)
        assert tuned(data=data).get("max_download_buffer_size") == buffer

    @pytest.mark.parametrize(("files", "ranges"), [(1, 16), (2, 8), (4, None), (64, None)])
    def test_few_large_files_are_downloaded_in_more_ranges(self, files, ranges):
        data = DataVolume(share_bytes=1000 * GIB, files_per_node=files, largest_file_bytes=GIB)
        assert tuned(NodeSpec(16, 64 * GIB), data=data).get("max_download_threads") == ranges

    @pytest.mark.parametrize(("cores", "method"), [(1, "read"), (2, None), (8, None)])
    def test_a_single_thread_reads_without_a_pool(self, cores, method):
        assert tuned(NodeSpec(cores, 16 * GIB)).get("remote_filesystem_read_method") == method
