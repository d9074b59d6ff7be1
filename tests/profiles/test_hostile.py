"""A sample of `python -m tests.profiles`: nights under hostile settings are exact, or refused before the first."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.s3 import S3Server
from tests.profiles.hostile import Case, Hostile, at_random
from tests.profiles.run import carry_out

CASES, SEED = 5, 2026
#: Under which a load once ended with an error of the driver, or did not end.
ONCE_BROKEN = [
    Case({"output_format_native_encode_types_in_binary_format": "1"}, "user", "Parquet", "worker"),
    Case({"distributed_connections_pool_size": "0"}, "user", "Parquet", "worker"),
]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("part", [slice(1, 3), slice(1), slice(3, None)])
def test_loads_under_hostile_profiles_are_exact_or_refused(
    chs3_s3: object, chs3_cluster: object, monkeypatch: pytest.MonkeyPatch, part: slice
) -> None:
    if not isinstance(chs3_s3, S3Server) or not isinstance(chs3_cluster, ClickHouseCluster):
        pytest.skip("servers of others have profiles of their own")
    for name in ("AIRFLOW_CONN_CHS3_DEFAULT", "AIRFLOW_CONN_AWS_DEFAULT"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr("airflow_provider_chs3.core.load.retry_policy.WAIT_SECONDS", 0)
    cases = [*ONCE_BROKEN, *at_random(Hostile(chs3_cluster), cases=CASES, seed=SEED)]
    outcomes = {case.name: outcome for case, outcome in carry_out(chs3_s3, cases[part])}
    assert {outcomes[case.name].kind for case in ONCE_BROKEN if case in cases[part]} <= {"exact"}
    assert {name: outcome for name, outcome in outcomes.items() if not outcome.is_right} == {}
