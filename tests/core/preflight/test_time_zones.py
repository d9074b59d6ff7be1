"""Nodes of different zones are refused where a value would depend on one of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_chs3.core.cluster.table_facts import Column
from airflow_provider_chs3.core.preflight.time_zones import check_zones, zone_findings
from airflow_provider_chs3.exceptions import PreflightError
from tests.core.surroundings import ONE, TWO, surroundings, with_target

ZONED = with_target(columns=(Column("at", "DateTime('UTC')", in_partition_key=True),), sorting_key="at")


def context(*zones: str, facts=ZONED):
    return surroundings(*(replace(facts, time_zone=zone) for zone in zones))


def test_nodes_of_one_zone_pass():
    check_zones(context("Asia/Tokyo", "Asia/Tokyo"), {})
    check_zones(context("Asia/Tokyo", "Asia/Tokyo", facts=with_target()), {"session_timezone": "UTC"})


def test_others_are_named_with_the_setting():
    with pytest.raises(PreflightError) as error:
        check_zones(context("UTC", "Asia/Tokyo", "UTC"), {})
    (finding,) = error.value.findings
    assert f"(Asia/Tokyo on {TWO}; UTC on {ONE}, " in finding
    assert "settings={'session_timezone': " in finding


def test_they_pass_where_it_is_given():
    check_zones(context("UTC", "Asia/Tokyo"), {"session_timezone": "Europe/Berlin"})


def test_but_not_where_a_key_goes_by_each():
    (finding,) = zone_findings(context("UTC", "Asia/Tokyo", facts=with_target()), {"session_timezone": "UTC"})
    assert "computes its partition key 'toYYYYMM(at)' in the zone of each node" in finding


def test_an_empty_zone_is_none():
    assert len(list(zone_findings(context("UTC", "UTC"), {"session_timezone": ""}))) == 1


@pytest.mark.parametrize(("given", "zone"), [({}, "Asia/Tokyo"), ({"session_timezone": "Etc/UTC"}, "UTC")])
def test_the_zone_of_a_load(given, zone):
    assert context("Asia/Tokyo", "Asia/Tokyo").zone_of(given) == zone
