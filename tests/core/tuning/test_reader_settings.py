"""The settings of a load that are about reading files."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.files.data_volume import DataVolume
from airflow_provider_chs3.core.model.models import NodeSpec
from tests.core.tuning.test_insert_settings import GIB, MIB, tuned


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
