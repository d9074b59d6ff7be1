"""The privileges of a load: how they are asked for, and that the documentation has them all."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_provider_chs3.core.load.discovery import privileges_of_load
from airflow_provider_chs3.core.load.load_request import Policies
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.target.privileges import (
    check_privileges,
    privilege_of_filling,
    privileges_of_adopting,
    privileges_of_increments,
    privileges_of_merge_health,
    privileges_of_optimizing,
    privileges_of_page,
    privileges_of_planning,
    privileges_of_proving,
    privileges_of_replication,
)
from airflow_provider_chs3.core.target.topology import ONLY_NODE, TableLocation
from airflow_provider_chs3.exceptions import PreflightError
from airflow_provider_chs3.sources.s3.reading import S3
from tests.core.surroundings import ONE, TWO
from tests.support.driving import drive
from tests.support.narrow_user import documented, documented_also


def needed(*, cluster="c", collection=None, staging="taxi", is_durable=False, store=S3, is_approval=False, **policies):
    request = SimpleNamespace(
        source=SimpleNamespace(named_collection=collection, kind=store),
        policies=Policies(**policies),
        is_durable=is_durable,
        is_approval=is_approval,
    )
    place = TableLocation(
        cluster=cluster, target=TableName("taxi", "trips"), ledger=TableName(staging, "chs3_ledger"), nodes=(ONE, TWO)
    )
    return privileges_of_load(request, place)


def test_the_documentation_grants_what_is_asked_for():
    asked_for = {each.replace("`", "") for each in (*needed(), privilege_of_filling(PLACE.ledger))}
    assert set(documented("Loading")) == asked_for | {"READ ON REMOTE"}


def test_so_it_does_for_deferrable_loads():
    also = set(needed(is_durable=True)) - set(needed())
    assert also == {*documented_also("the load is `deferrable`, which"), "READ ON REMOTE"}
    assert "READ ON REMOTE" in documented("Loading")


def test_so_it_does_for_loads_that_keep_versions():
    also = {each.replace("`", "") for each in set(needed(keep_versions=1)) - set(needed())}
    assert also == {*documented_also("Also for `keep_versions`"), "ALTER DELETE ON taxi.chs3_*"}


@pytest.mark.parametrize("options", [{"on_failed_check": "hold"}, {"is_approval": True}])
def test_what_is_held_is_attached_to_tables_beside_staging(options):
    assert set(needed(**options)) - set(needed()) == {"ALTER DELETE ON `taxi`.chs3_*"}


def test_so_it_does_for_loads_of_new_objects_alone():
    also = documented_also("only new objects") + documented_also("waits for merges")
    asked_for = {each.replace("`", "") for each in privileges_of_increments(PLACE).every}
    assert asked_for == {*also, "ALTER DELETE ON taxi.chs3_*"}


@pytest.mark.parametrize("is_shared", [False, True])
def test_so_it_does_for_replicated_tables(is_shared):
    target, ledger = TableName("taxi", "trips"), TableName("taxi", "chs3_ledger")
    asked_for = privileges_of_replication(target, ledger, is_shared=is_shared)
    documented = documented_also("the table is replicated") + documented_also("numbers the records") * (not is_shared)
    assert set(documented) == {each.replace("`", "") for each in asked_for}


def test_without_a_cluster_none_is_needed_for_it():
    assert set(needed()) - set(needed(cluster=None)) == {"SELECT ON system.clusters", "WRITE ON REMOTE"}


def test_names_are_quoted():
    assert "SELECT ON `st``age`.chs3_*".replace("``", "\\`") in needed(staging="st`age")
    assert "NAMED COLLECTION ON `my lake`" in needed(collection="my lake")


def test_a_node_that_has_all_is_asked_once():
    driven = drive(check_privileges((ONE, TWO), ["A ON x", "B ON y"]), {ONE: [(1,)], TWO: [(1,)]})
    assert [sql.text for sql in driven.steps[0].sql.values()] == ["CHECK GRANT A ON x, B ON y"] * 2


def test_only_nodes_that_lack_something_are_asked_for_each_privilege_and_named():
    answers = [{ONE: [(1,)], TWO: [(0,)]}, {TWO: [(1,)]}, {TWO: [(0,)]}, {TWO: [("me", 0, True)]}]
    with pytest.raises(PreflightError) as raised:
        drive(check_privileges((ONE, TWO), ["A ON x", "B ON y"]), *answers)
    assert raised.value.findings == ("User 'me' lacks privileges on ch-2:9000: run GRANT B ON y TO `me` there.",)


@pytest.mark.parametrize(
    ("settings", "forbids"), [((2, True), "readonly = 2"), ((0, False), "allow_ddl = 0"), ((1, False), "readonly = 1")]
)
def test_a_profile_that_forbids_it_is_named_instead(settings, forbids):
    answers = [{TWO: [(0,)]}, {TWO: [(0,)]}, {TWO: [("me", *settings)]}]
    with pytest.raises(PreflightError, match=f"'me' may not load on ch-2:9000: .* have {forbids}"):
        drive(check_privileges((TWO,), ["A ON x"]), *answers)


def test_a_single_server_is_named_so():
    answers = [{ONLY_NODE: [(0,)]}, {ONLY_NODE: [(0,)]}, {ONLY_NODE: [("me", 0, True)]}]
    with pytest.raises(
        PreflightError, match="User 'me' lacks privileges on the server: run GRANT A ON x TO `me` there"
    ):
        drive(check_privileges((ONLY_NODE,), ["A ON x"]), *answers)


PLACE = TableLocation(
    cluster="c", target=TableName("taxi", "trips"), ledger=TableName("taxi", "chs3_ledger"), nodes=(ONE,)
)


@pytest.mark.parametrize(
    ("section", "needed"),
    [
        ("Planning", privileges_of_planning(PLACE)),
        ("Proving", privileges_of_proving(PLACE, named_collection=None, store=S3)),
        ("Merge health", privileges_of_merge_health(PLACE)),
        ("Merging closed periods", privileges_of_optimizing(PLACE)),
        ("The periods page", privileges_of_page(PLACE)),
    ],
)
def test_the_documentation_grants_what_the_doctor_asks_for(section, needed):
    assert sorted(documented(section)) == sorted(each.replace("`", "") for each in needed.every)


def test_so_it_does_for_adopting():
    assert set(documented("The ledger")) >= {each.replace("`", "") for each in privileges_of_adopting(PLACE).every}
