"""How far an insert is, in one line."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.progress import NodeProgress, progress_line, progress_query

MIB = 1024**2
NODES = [
    NodeProgress(1, 1_500_000, 40 * MIB, 1536 * MIB, 2048 * MIB),
    NodeProgress(2, 500_000, 10 * MIB, 512 * MIB, 512 * MIB),
]


def test_the_line_tells_share_bytes_speed_and_each_node():
    assert progress_line(NODES, total_rows=8_000_000, seconds=4) == (
        "25 % of 8,000,000 rows, 50 MiB read, 500,000 rows/s "
        "(shard 1: 1,500,000 rows, 1,536 MiB, shard 2: 500,000 rows, 512 MiB)"
    )


@pytest.mark.parametrize("total_rows", [None, 0])
def test_without_a_total_there_is_no_share(total_rows):
    assert progress_line(NODES, total_rows=total_rows, seconds=4).startswith("2,000,000 rows, 50 MiB read")


@pytest.mark.parametrize("seconds", [0, 0.0, 1e-9])
def test_the_first_moment_has_a_speed_too(seconds):
    assert "rows/s" in progress_line(NODES, total_rows=None, seconds=seconds)


def test_nothing_is_seen_yet():
    assert progress_line([], total_rows=10, seconds=1) == "0 % of 10 rows, 0 MiB read, 0 rows/s ()"


class TestQuery:
    def test_of_a_cluster_asks_every_node_for_what_the_initiator_sent_it(self):
        text = progress_query("q'1", "c'l").text
        assert "clusterAllReplicas('c\\'l', system.processes)" in text
        assert "is_initial_query = 0" in text

    def test_of_one_server_asks_for_the_query_itself(self):
        text = progress_query("q", None).text
        assert "clusterAllReplicas" not in text
        assert "is_initial_query = 1" in text

    def test_finds_the_insert_by_its_id(self):
        assert r"initial_query_id = 'q\'1'" in progress_query("q'1", None).text
