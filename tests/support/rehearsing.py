"""The command that rehearses, as a fixture."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_chs3.cli import main as shell
from tests.support.lake import Lake

#: Exit code, stdout, stderr.
Rehearse = Callable[..., tuple[int, str, str]]


@pytest.fixture
def rehearse(lake: Lake, capsys: pytest.CaptureFixture[str]) -> Rehearse:
    """Rehearses beside the lake."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        where = ["--database", lake.database, "--cluster", lake.cluster.name, "--bucket", lake.bucket]
        code = shell.main(["rehearse", *where, "--prefix", "rehearsals/", *arguments])
        return code, *capsys.readouterr()

    return run


def left(lake: Lake) -> tuple[list[str], int]:
    """Tables on any node, and how many objects."""
    tables = lake.on_every_node(f"SELECT name FROM system.tables WHERE database = '{lake.database}'")
    return [name for rows in tables for (name,) in rows], lake.s3.list_objects_v2(Bucket=lake.bucket)["KeyCount"]
