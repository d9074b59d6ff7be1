"""Text of every format: each row is read as Python reads it, however small the chunks of the server are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.parsing.running import FAULTS, READ, Bed, run

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

#: The long run, `python -m tests.parsing`, has thousands of cases; these are the same ones each time.
_CASES = 100


def test_rows_are_those_of_another_reader(cluster_of_one: Cluster, chs3_s3: Any, chs3_bucket: str) -> None:
    with cluster_of_one.nodes[0].client() as client:
        bed = Bed(client, chs3_s3.client(), chs3_bucket)
        outcomes = [run(bed, 1, number) for number in range(_CASES)]
    assert [outcome for outcome in outcomes if outcome.kind in FAULTS] == []
    assert {outcome.file_format for outcome in outcomes if outcome.is_torn} > {"CSV", "CSVWithNames"}
    assert sum(outcome.kind == READ for outcome in outcomes) > _CASES / 2
