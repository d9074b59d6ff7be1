"""How far an insert is, in one line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_chs3.core.steps.insert_progress import (
    InsertProgress,
    NodeProgress,
    ProgressLines,
    progress_of,
    progress_query,
)

MIB = 1024**2


def progress_line(progress, *, total_rows, seconds):
    """The first line of an insert."""
    return ProgressLines(total_rows).line(progress, seconds=seconds)


PROGRESS = InsertProgress(
    is_running=True,
    read_rows=2_000_000,
    read_bytes=50 * MIB,
    nodes=(
        NodeProgress(1, 1_300_000, 1536 * MIB, 2048 * MIB, 1_000_000),
        NodeProgress(2, 500_000, 512 * MIB, 512 * MIB, 500_000),
    ),
)


def test_the_line_tells_share_bytes_speed_and_each_node():
    assert progress_line(PROGRESS, total_rows=8_000_000, seconds=4) == (
        "Inserting: 25% of 8,000,000 rows, 50.0 MiB read, 500,000 rows/s, about 12 s left to read "
        "(reading: shard 1: 1,300,000 rows, 1.5 GiB of memory, shard 2: 500,000 rows, 512.0 MiB of memory)"
    )


@pytest.mark.parametrize(
    ("seconds", "left"), [(1, "about 3 s left to"), (100, "about 5 min left to"), (3600, "about 3 h 0 min left to")]
)
def test_what_is_left_is_told_in_a_unit_that_fits(seconds, left):
    assert left in progress_line(PROGRESS, total_rows=8_000_000, seconds=seconds)


def test_an_insert_that_has_read_all_still_writes():
    line = progress_line(PROGRESS, total_rows=2_000_000, seconds=4)
    assert line.startswith(
        "Inserting: 100% of 2,000,000 rows, 50.0 MiB read, 500,000 rows/s, 1,500,000 of them written"
    )


@pytest.mark.parametrize("total_rows", [None, 0])
def test_without_a_total_there_is_no_share(total_rows):
    assert progress_line(PROGRESS, total_rows=total_rows, seconds=4).startswith(
        "Inserting: 2,000,000 rows, 50.0 MiB read"
    )


@pytest.mark.parametrize("seconds", [0, 0.0, 1e-9])
def test_the_first_moment_has_a_speed_too(seconds):
    assert "rows/s" in progress_line(PROGRESS, total_rows=None, seconds=seconds)


def test_nothing_is_seen_yet():
    assert (
        progress_line(InsertProgress(), total_rows=10, seconds=1) == "Inserting: 0% of 10 rows, 0 bytes read, 0 rows/s"
    )


class TestLaterLines:
    """Lines of one insert, whose shard 2 has less to read."""

    @pytest.fixture
    def lines(self):
        lines = ProgressLines(8_000_000)
        lines.line(PROGRESS, seconds=4)
        return lines

    def test_what_is_left_becomes_less(self, lines):
        later = replace(PROGRESS, read_rows=6_000_000)
        assert ", about 3 s left to read (" in lines.line(later, seconds=9)

    def test_if_it_becomes_more_the_line_says_which_shards_are_done(self, lines):
        later = replace(PROGRESS, read_rows=2_400_000, nodes=PROGRESS.nodes[:1])
        line = lines.line(later, seconds=9)
        assert ", about 21 s left to read, more than before: fewer nodes read, as shard 2 is done (" in line

    def test_or_that_reading_is_slower(self, lines):
        line = lines.line(replace(PROGRESS, read_rows=2_400_000), seconds=9)
        assert ", about 21 s left to read, more than before: reading has become slower (" in line

    def test_rows_that_a_node_wrote_count_when_it_is_done(self, lines):
        later = replace(PROGRESS, read_rows=8_000_000, nodes=(replace(PROGRESS.nodes[1], written_rows=700_000),))
        assert ", 1,700,000 of them written (" in lines.line(later, seconds=9)

    def test_what_was_read_counts_while_the_initiator_does_not_answer(self, lines):
        line = lines.line(replace(PROGRESS, read_rows=500_000, read_bytes=MIB, nodes=PROGRESS.nodes[1:]), seconds=5)
        assert line.startswith(
            "Inserting: 25% of 8,000,000 rows, 50.0 MiB read, 400,000 rows/s, about 15 s left to read, more than"
        )


class TestQuery:
    def test_of_a_cluster_asks_every_node(self):
        assert "clusterAllReplicas('c\\'l', system.processes)" in progress_query(["q"], "c'l").text

    def test_of_one_server_asks_that_one(self):
        assert "clusterAllReplicas" not in progress_query(["q"], None).text

    def test_finds_inserts_by_their_ids(self):
        assert r"initial_query_id IN ('q\'1', 'r')" in progress_query(["q'1", "r"], None).text


class TestAnswer:
    ROWS = (
        ("q", 1, 1, 30, 3, 5, 6, 0),
        ("q", 0, 1, 10, 1, 2, 3, 4),
        ("q", 0, 2, 20, 2, 2, 3, 5),
        ("r", 1, 1, 7, 1, 1, 1, 1),
    )

    def test_of_a_cluster_takes_the_total_from_the_initiator_and_the_nodes_from_the_others(self):
        progress = progress_of("q", self.ROWS, "cluster")
        assert (progress.read_rows, progress.read_bytes) == (30, 3)
        assert progress.nodes == (NodeProgress(1, 10, 2, 3, 4), NodeProgress(2, 20, 2, 3, 5))

    def test_counts_what_nodes_read_that_are_done(self):
        later = [("q", 1, 1, 35, 4, 5, 6, 0), ("q", 0, 2, 25, 3, 2, 3, 5)]
        progress = progress_of("q", later, "cluster")
        assert (progress.read_rows, [node.shard_num for node in progress.nodes]) == (35, [2])

    def test_adds_up_the_nodes_while_the_initiator_does_not_answer(self):
        progress = progress_of("q", self.ROWS[1:], "cluster")
        assert (progress.read_rows, progress.read_bytes) == (30, 3)

    def test_of_one_server_is_that_of_the_query_itself(self):
        assert [node.read_rows for node in progress_of("r", self.ROWS, None).nodes] == [7]

    def test_runs_while_the_initiator_is_left(self):
        assert progress_of("r", self.ROWS, "cluster") == InsertProgress(is_running=True, read_rows=7, read_bytes=1)

    def test_runs_no_more_where_no_node_knows_it(self):
        assert not progress_of("s", self.ROWS, "cluster").is_running
