"""An argument without an effect is an error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_chs3.core.arguments.declaration import declared
from airflow_provider_chs3.core.arguments.load_arguments import GROUPS, MERGE_HEALTH
from airflow_provider_chs3.core.files.csv_dialect import Dialect
from airflow_provider_chs3.core.files.loaded_columns import Selection
from airflow_provider_chs3.core.load.effects import EFFECTS, SWITCHES, written_name
from airflow_provider_chs3.core.load.load_request import LoadRequest, Policies, parsed_definition
from airflow_provider_chs3.core.model.formats import FORMATS
from airflow_provider_chs3.exceptions import ConfigurationError
from tests.core.load.test_load_request import REQUEST, manifest

CSV, TYPED = ("CSV", "CSVWithNames"), ("Parquet", "ORC", "Arrow")
#: Argument, a value, and the formats on which it has an effect.
GIVEN: list[tuple[str, Any, tuple[str, ...]]] = [
    *(
        ("csv", {name: value}, CSV)
        for name, value in {"null": "-", "quote": "'", "trim": True, "skip_lines": 1}.items()
    ),
    ("csv", {"delimiter": ";"}, CSV),
    ("csv", {"blank_lines": "skip_last"}, CSV),
    ("policies", {"count_again": True}, tuple(each for each in FORMATS if each != "Parquet")),
    ("policies", {"unproved_codecs": "load"}, tuple(each for each in FORMATS if each not in TYPED)),
    ("selection", {"naive_timestamps": "utc"}, TYPED),
    ("selection", {"null_as_default": True}, tuple(FORMATS)),
    ("policies", {"on_new_columns": "fail"}, tuple(each for each in FORMATS if each not in ("CSV", "TabSeparated"))),
    ("policies", {"max_increments": 3}, tuple(FORMATS)),
]
#: An argument, what switches it off, and what lets it have an effect.
SWITCHED: list[tuple[str, Any, dict[str, Any], dict[str, Any]]] = [
    ("max_increments", 4, {"increments": {"incremental": False}}, {}),
    ("object_column", "o", {"increments": {"incremental": False}}, {}),
    ("on_shrink", "hold", {"policies": {"max_shrink_fraction": "1"}}, {}),
    ("on_failed_check", "warn", {"checks": {}}, {"checks": {"table_checks": {"a": {"check_statement": "1"}}}}),
    ("hold_limit_days", 3, {}, {"policies": {"on_shrink": "hold"}}),
    ("merge_health", {"on_stuck": "continue"}, {}, {"wait_for_merges": True}),
]


def _with(name: str, value: Any, others: dict[str, Any]) -> dict[str, Any]:
    group = next((group for group, kind in GROUPS.items() if name in declared(kind)), "")
    return {**others, group: {**others.get(group, {}), name: value}} if group else {**others, name: value}


def _request(of: str, values: dict[str, Any], name: str) -> LoadRequest:
    if of == "policies":
        return replace(REQUEST, format=FORMATS[name], policies=Policies(**values))
    selection = Selection(csv=Dialect(**values)) if of == "csv" else Selection(**values)
    return replace(REQUEST, format=FORMATS[name], selection=selection)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("of", "values", "formats"), GIVEN, ids=lambda each: str(each)[:40])
def test_on_a_format_on_which_it_has_none(of: str, values: dict[str, Any], formats: tuple[str, ...], name: str) -> None:
    request = _request(of, values, name)
    if name in formats:
        assert request.format_of(manifest("a")).name == name
    else:
        with pytest.raises(ConfigurationError, match=rf"\['{next(iter(values))}'\] has no effect on {name}: "):
            request.format_of(manifest("a"))


def test_the_table_has_arguments_that_exist() -> None:
    groups = {**GROUPS, "csv": Dialect}
    assert [key for key in EFFECTS if key[1] not in declared(groups[key[0]])] == []
    assert {key[1] for key in EFFECTS if key[0] == "csv"} == set(declared(Dialect))


@pytest.mark.parametrize(("name", "value", "off", "on"), SWITCHED)
def test_beside_an_argument_that_switches_it_off(
    name: str, value: Any, off: dict[str, Any], on: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError, match=r" has no effect (with|without|unless) .*: .*\. Leave"):
        parsed_definition(_with(name, value, off))
    parsed_definition(off)
    parsed_definition(_with(name, value, on))


def test_each_argument_that_is_switched_off_exists_and_is_tried() -> None:
    names = {name for switch in SWITCHES for name in switch.names}
    assert {name for name in names if written_name(name) == name} == {MERGE_HEALTH.name}
    assert {name for name, *_ in SWITCHED} == names
