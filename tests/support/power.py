"""Power cuts: an ext4 file system in a file, which loses what it has not written yet.

`FS_IOC_SHUTDOWN` ends a mounted ext4 in a millisecond, without writing its journal, while servers go on in memory. A
copy of a mounted image is no such cut under load: it takes half a second, and was torn in one of three. Neither models
a drive that loses or reorders what it said was written, nor another file system.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster

_FS_IOC_SHUTDOWN = 0x8004587D
_WITHOUT_WRITING_THE_JOURNAL = 2
_IMAGE_BYTES = 4 * 1024**3


def missing() -> str:
    """Why no power can be cut here; empty where it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "power cuts need Linux and root, who mounts file systems"
    if not shutil.which("mkfs.ext4"):
        return "power cuts need mkfs.ext4 (Debian: e2fsprogs)"
    found = subprocess.run(["losetup", "--find"], capture_output=True, text=True, check=False)
    return f"no loop device: {found.stderr.strip()}" if found.returncode else ""


class Disk:
    """A disk of a node's own, mounted where the node lives."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._image = folder, folder.with_suffix(".ext4")
        folder.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(_IMAGE_BYTES)
        subprocess.run(["mkfs.ext4", "-q", str(self._image)], check=True)
        self.mount()

    def mount(self) -> None:
        """Mount it, as after the power has come back."""
        subprocess.run(["mount", "-o", "loop", str(self._image), str(self._folder)], check=True)

    def cut(self) -> None:
        """Cut its power: nothing is written to it any more."""
        mounted = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.ioctl(mounted, _FS_IOC_SHUTDOWN, struct.pack("I", _WITHOUT_WRITING_THE_JOURNAL))
        finally:
            os.close(mounted)

    def unmount(self) -> None:
        """Unmount it; no process may use it."""
        subprocess.run(["umount", str(self._folder)], check=True)


class Power:
    """The power of a cluster whose nodes live on disks of their own."""

    def __init__(self, cluster: ClickHouseCluster, disks: list[Disk]) -> None:
        self.cluster, self._disks = cluster, disks

    def cut(self, index: int) -> None:
        """Cut the power of a node, and have it come back at once."""
        self._disks[index].cut()
        self.cluster.kill(index)
        self._disks[index].unmount()
        self._disks[index].mount()
        self.cluster.restart(index)


@contextmanager
def disks_of(nodes: int, home: Path) -> Iterator[list[Disk]]:
    """Disks for the nodes of a cluster that starts in a folder."""
    disks: list[Disk] = []
    try:
        disks += (Disk(home / f"node{number}") for number in range(1, nodes + 1))
        yield disks
    finally:
        for disk in disks:
            disk.unmount()
