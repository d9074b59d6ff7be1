"""The settings of a load, each with its reason."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.models import NodeSpec
from airflow_provider_chs3.core.tuning import (
    DDL_SETTINGS,
    EXACT_NAMES,
    REQUIRED_SETTINGS,
    load_settings,
    names_to_look_up,
    smallest,
    tunable,
    tuned_settings,
)
from airflow_provider_chs3.exceptions import ConfigurationError

GIB = 1024**3
SPEC = NodeSpec(8, 32 * GIB)
KNOWN = frozenset(names_to_look_up({"max_threads": 1, "s3_max_connections": 1}))


def values(*, own=None, known=KNOWN, null_as_default=False, spec=SPEC):
    settings = load_settings(spec=spec, known=known, own=own or {}, null_as_default=null_as_default)
    return {each.name: each.value for each in settings}


class TestTheGuidesRule:
    @pytest.mark.parametrize(
        ("cores", "memory_bytes", "threads", "block_bytes"),
        [
            # The guide's examples take all memory, 8 cores and 32 GiB, 16 cores and 64 GiB; a load takes half of it.
            (8, 2 * 32 * GIB, 4, 2863311530),
            (16, 2 * 64 * GIB, 8, 2863311530),
            (8, 32 * GIB, 4, 1431655765),
            (2, 24 * GIB, 1, 4 * GIB),
            (1, 6 * GIB, 1, GIB),
            (3, 6 * GIB, 1, GIB),
            (64, 6 * 32 * GIB, 32, GIB),
        ],
    )
    def test_half_of_the_cores_and_three_blocks_a_thread(self, cores, memory_bytes, threads, block_bytes):
        tuned = {each.name: each.value for each in tuned_settings(NodeSpec(cores, memory_bytes))}
        assert (tuned["max_insert_threads"], tuned["min_insert_block_size_bytes"]) == (threads, block_bytes)

    def test_without_a_known_memory_blocks_are_the_servers(self):
        names = {each.name for each in tuned_settings(NodeSpec(cores=8, memory_bytes=0))}
        assert names == {"max_insert_threads", "max_insert_threads_min_free_memory_per_thread"}

    def test_rows_do_not_close_a_block(self):
        assert values()["min_insert_block_size_rows"] == 0

    def test_the_server_does_not_lower_the_threads_again(self):
        assert values()["max_insert_threads_min_free_memory_per_thread"] == 0

    def test_nodes_are_as_good_as_the_smallest(self):
        assert smallest([NodeSpec(8, 16 * GIB), NodeSpec(4, 32 * GIB)]) == NodeSpec(4, 16 * GIB)


class TestUsersSettings:
    def test_win_over_tuned_ones(self):
        assert values(own={"max_insert_threads": 3})["max_insert_threads"] == 3

    def test_are_sent_beside_tuned_ones(self):
        sent = values(own={"s3_max_connections": 7})
        assert (sent["s3_max_connections"], sent["max_insert_threads"]) == (7, 4)

    def test_have_the_user_for_a_reason(self):
        settings = load_settings(spec=SPEC, known=KNOWN, own={"max_threads": 7}, null_as_default=False)
        assert [each.reason for each in settings if each.name == "max_threads"] == ["yours"]

    @pytest.mark.parametrize("name", sorted(EXACT_NAMES))
    def test_cannot_make_a_load_inexact(self, name):
        with pytest.raises(
            ConfigurationError, match=f"settings: {name} cannot be changed, or loads would not be exact"
        ):
            values(own={name: 1, "max_threads": 2})

    @pytest.mark.parametrize("name", ["max_thread", "x; DROP TABLE y", ""])
    def test_that_a_node_does_not_know_are_told(self, name):
        with pytest.raises(ConfigurationError, match=f"settings: {name} not known to every node of the cluster"):
            values(own={name: 1})


class TestExactSettings:
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
            ("date_time_overflow_behavior", "throw"),
        ],
    )
    def test_are_always_sent(self, name, value):
        assert values(own={"max_threads": 1})[name] == value

    @pytest.mark.parametrize("null_as_default", [False, True])
    def test_say_what_becomes_of_null(self, null_as_default):
        assert values(null_as_default=null_as_default)["insert_null_as_default"] == int(null_as_default)

    @pytest.mark.parametrize("name", ["insert_distributed_sync", "allow_experimental_parallel_reading_from_replicas"])
    def test_are_sent_under_one_name(self, name):
        assert name not in values()

    def test_that_the_nodes_must_know_are_among_them(self):
        assert set(REQUIRED_SETTINGS) <= EXACT_NAMES


def test_what_a_node_does_not_know_is_left_out():
    assert "deduplicate_insert" not in values(known=KNOWN - {"deduplicate_insert"})


def test_every_setting_has_a_reason():
    settings = load_settings(spec=SPEC, known=KNOWN, own={"max_threads": 1}, null_as_default=False)
    assert [each.name for each in settings if not each.reason] == []


def test_every_setting_is_sent_once():
    settings = load_settings(spec=SPEC, known=KNOWN, own={"max_insert_threads": 1}, null_as_default=False)
    names = [each.name for each in settings]
    assert len(names) == len(set(names))


class TestNamesToLookUp:
    @pytest.mark.parametrize("name", [*DDL_SETTINGS, *REQUIRED_SETTINGS, "max_insert_threads", "mine"])
    def test_hold_everything_that_may_be_sent(self, name):
        assert name in names_to_look_up({"mine": 1})

    def test_are_enough_for_all_settings_to_be_known(self):
        assert set(values()) <= set(names_to_look_up({}))


class TestConnectionsSettings:
    def test_are_taken_over_where_a_load_is_free_to_choose(self):
        assert tunable({"max_threads": 4}) == {"max_threads": 4}

    @pytest.mark.parametrize("name", sorted(EXACT_NAMES))
    def test_are_left_out_where_it_is_not(self, name):
        assert tunable({name: 1}) == {}
