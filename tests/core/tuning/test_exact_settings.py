"""The settings without which a load could lose, double or change rows."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.tuning.exact_settings import EXACT_NAMES, REQUIRED_SETTINGS
from airflow_provider_chs3.core.tuning.insert_settings import load_settings
from airflow_provider_chs3.sources.s3.reading import S3
from tests.core.tuning.test_insert_settings import KNOWN, LARGE, part, values


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
