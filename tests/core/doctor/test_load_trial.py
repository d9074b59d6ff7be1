"""The doctor on a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_chs3.core.doctor.load_trial import check_table
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.target.node_facts import ReplicatedDatabase
from airflow_provider_chs3.core.tuning.insert_settings import REQUIRED_SETTINGS
from tests.core.surroundings import FACTS, ONE, TARGET, surroundings
from tests.support.driving import drive, server_error

REPLICATED = replace(TARGET, engine="ReplicatedMergeTree")
DURABLE = replace(REPLICATED, engine_full=f"{TARGET.engine_full}, fsync_after_insert = 1")
REPLICAS = (ONE, Node(1, 2, "ch-1b", 9000))
SAME_PATH = {node: [("default", "/trips", str(node))] for node in REPLICAS}


def checked(*answers, target=REPLICATED, nodes=REPLICAS, **changes):
    """Check the table of replicas, of which only these nodes answered before."""
    facts = replace(FACTS, target=target, known_settings=dict.fromkeys(REQUIRED_SETTINGS), **changes)
    context = surroundings(*[facts] * len(nodes), nodes=nodes)
    return drive(check_table(context, REPLICAS, user_settings={}), *answers).result


@pytest.mark.parametrize(("target", "is_told"), [(TARGET, False), (REPLICATED, True), (DURABLE, False)])
def test_replicated_tables_may_lose_periods_with_all_replicas_at_once(target, is_told):
    check = checked(target=TARGET, nodes=(ONE,)) if target is TARGET else checked(SAME_PATH, target=target)
    assert check.findings == ()
    assert any("fsync_after_insert = 1 on db.trips" in remark for remark in check.remarks) is is_told


def test_a_cluster_that_lacks_servers_of_the_database_is_found_as_a_load_says_it():
    (finding,) = checked(databases={"db": ReplicatedDatabase(1, 3)}).findings
    assert "has 3 servers, of which cluster 'c' names 2" in finding


def test_a_server_that_is_down_is_no_server_that_the_cluster_lacks():
    check = checked({ONE: SAME_PATH[ONE]}, nodes=(ONE,), databases={"db": ReplicatedDatabase(1, 2)})
    assert check.findings == ()


def test_replicas_that_do_not_replicate_each_other_are_found():
    (finding,) = checked({**SAME_PATH, ONE: [("default", "/elsewhere", "a")]}).findings
    assert "do not replicate db.trips to each other" in finding


def test_replicas_that_do_not_tell_are_others_findings():
    check = checked(server_error(497, "not enough privileges"))
    assert (check.findings, bool(check.summary)) == ((), True)
