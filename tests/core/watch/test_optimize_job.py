"""One period on one node that has too many parts: how far it is, and what comes next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.watch.merge_observation import MergeState
from airflow_provider_chs3.core.watch.optimize_job import Job, Status, advanced, failed, results, started
from airflow_provider_chs3.exceptions import ClickHouseServerError, MergeHealthError, TransientError
from tests.support.driving import server_error
from tests.support.merge_states import FEW, GIB, MERGE, REPLICA

JOB = Job(node=FEW.node, period=FEW.period, partition_id=FEW.partition_id, parts_before=3)
FOLLOWER = Node(FEW.node.shard_num, 2, "ch-1b", 9000)


def after(job: Job, *states: MergeState, running_seconds: float | None = None) -> Job:
    return advanced(job, states, running_seconds, 1)


def status(job: Job, *states: MergeState, **options: Any) -> Status:
    return after(job, *states, **options).status


class TestALook:
    def test_too_many_parts_wait_for_their_turn(self):
        assert status(JOB, FEW) is Status.WAITING

    def test_few_enough_parts_are_merged_since_the_newest_was_made(self):
        done = after(replace(JOB, started_at=FEW.at_seconds - 100), replace(FEW, parts=1, unchanged_seconds=40))
        assert (done.status, done.seconds) == (Status.MERGED, 60)

    def test_a_merge_of_whomever_is_waited_for(self):
        assert status(JOB, replace(FEW, merges=(MERGE,))) is Status.RUNNING

    def test_the_optimize_of_an_earlier_process_is_waited_for_and_counted_from_its_start(self):
        seen = after(JOB, FEW, running_seconds=50)
        assert (seen.status, seen.started_at) == (Status.RUNNING, FEW.at_seconds - 50)

    def test_its_progress_is_told(self):
        assert after(JOB, replace(FEW, merges=(MERGE,))).progress == "10.0 MiB/s, about 30 s left"

    @pytest.mark.parametrize(("size_gib", "expected"), [(150, Status.WAITING), (151, Status.TOO_LARGE)])
    def test_no_part_is_made_larger_than_servers_merge(self, size_gib, expected):
        assert status(JOB, replace(FEW, size_bytes=size_gib * GIB)) is expected

    @pytest.mark.parametrize(("free_gib", "expected"), [(6, Status.NO_ROOM), (7, Status.WAITING)])
    def test_a_disk_must_have_twice_the_size_free(self, free_gib, expected):
        assert status(JOB, replace(FEW, size_bytes=3 * GIB, free_bytes=free_gib * GIB)) is expected

    def test_room_may_come_back(self):
        full = after(JOB, replace(FEW, free_bytes=0))
        assert after(full, FEW).reason == ""


class TestStartsInVain:
    def test_the_first_is_tried_again(self):
        assert status(started(after(JOB, FEW)), FEW) is Status.WAITING

    def test_the_second_is_given_up(self):
        once = after(started(after(JOB, FEW)), FEW)
        assert status(started(once), FEW) is Status.FAILED

    def test_parts_that_others_made_meanwhile_are_no_failure(self):
        seen = after(started(after(JOB, replace(FEW, parts=9))), FEW)
        assert (seen.status, seen.failures) == (Status.WAITING, ())

    def test_a_load_that_published_the_period_meanwhile_is_no_failure(self):
        published = replace(FEW, parts=9, at_seconds=FEW.at_seconds + 60, unchanged_seconds=5)
        seen = after(started(after(JOB, FEW)), published)
        assert (seen.status, seen.failures) == (Status.WAITING, ())

    def test_a_merge_of_others_that_ended_is_no_failure(self):
        seen = after(after(JOB, replace(FEW, merges=(MERGE,))), FEW)
        assert (seen.status, seen.failures) == (Status.WAITING, ())

    def test_what_was_given_up_stays_so(self):
        given_up = failed(failed(after(JOB, FEW), server_error(388)), server_error(388))
        assert after(given_up, FEW).reason == given_up.reason

    def test_merges_that_are_stopped_are_named(self):
        given_up = failed(failed(JOB, server_error(236)), server_error(236))
        assert "SYSTEM START MERGES" in given_up.reason

    def test_one_that_runs_already_is_waited_for(self):
        assert failed(JOB, server_error(216)).status is Status.RUNNING

    def test_what_no_other_period_would_get_past_stops_all(self):
        with pytest.raises(ClickHouseServerError):
            failed(JOB, server_error(497))


class TestReplicated:
    HERE = replace(FEW, parts=1, replica=REPLICA)
    THERE = replace(HERE, node=FOLLOWER)

    def test_a_period_is_merged_when_every_replica_has_it(self):
        assert status(JOB, self.HERE, replace(self.THERE, parts=3)) is Status.RUNNING
        assert status(JOB, self.HERE, self.THERE) is Status.MERGED

    def test_a_merge_in_the_queue_of_a_replica_is_waited_for(self):
        behind = replace(self.THERE, parts=3, replica=replace(REPLICA, queue=1))
        assert status(JOB, self.HERE, behind) is Status.RUNNING


class TestResults:
    DONE = replace(JOB, status=Status.MERGED, parts=1, size_bytes=7, started_at=1.0, ended_at=4.0)

    def test_parts_bytes_and_seconds_by_period_and_node(self):
        told = {"status": "merged", "parts_before": 3, "parts_after": 1, "size_bytes": 7, "seconds": 3}
        assert results([self.DONE]) == {"merged": 1, "periods": {"2026-10": {"ch-1:9000": told}}}

    def test_what_is_too_large_is_no_error(self):
        large = after(JOB, replace(FEW, size_bytes=151 * GIB))
        told = results([self.DONE, large])["periods"]["2026-10"]["ch-1:9000"]
        assert "max_bytes_to_merge_at_max_space_in_pool (150.0 GiB)" in told["reason"]

    def test_no_room_is_an_error_for_a_retry(self):
        with pytest.raises(TransientError, match=r"0 bytes are free on its disk"):
            results([self.DONE, after(JOB, replace(FEW, free_bytes=0))])

    def test_what_was_given_up_is_an_error_for_a_person(self):
        with pytest.raises(MergeHealthError, match="it did not work"):
            results([self.DONE, failed(failed(JOB, server_error(388)), server_error(388))])
