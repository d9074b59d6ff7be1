"""The doctor on a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_chs3.core.doctor.load_trial import check_table
from airflow_provider_chs3.core.tuning.exact_settings import REQUIRED_SETTINGS
from tests.core.surroundings import FACTS, TARGET, surroundings

REPLICATED = replace(TARGET, engine="ReplicatedMergeTree")
DURABLE = replace(REPLICATED, engine_full=f"{TARGET.engine_full}, fsync_after_insert = 1")


@pytest.mark.parametrize(("target", "is_told"), [(TARGET, False), (REPLICATED, True), (DURABLE, False)])
def test_replicated_tables_may_lose_periods_with_all_replicas_at_once(target, is_told):
    facts = replace(FACTS, target=target, known_settings=dict.fromkeys(REQUIRED_SETTINGS))
    check = check_table(surroundings(facts, facts, facts), user_settings={})
    assert check.findings == ()
    assert any("fsync_after_insert = 1 on db.trips" in remark for remark in check.remarks) is is_told
