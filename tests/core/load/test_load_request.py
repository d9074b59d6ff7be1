"""A user's request to a load, and which arguments have no effect."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider_chs3.core.arguments.declaration import declared
from airflow_provider_chs3.core.arguments.load_arguments import GROUPS, MERGE_HEALTH
from airflow_provider_chs3.core.files.key_template import KeyTemplate
from airflow_provider_chs3.core.files.loaded_columns import Selection
from airflow_provider_chs3.core.files.text_fields import Dialect
from airflow_provider_chs3.core.load.load_request import (
    EFFECTS,
    SWITCHES,
    LoadRequest,
    Policies,
    parsed_definition,
    written_name,
)
from airflow_provider_chs3.core.model.models import Manifest, TableName, Unit
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.store_kind import FORMATS, format_named
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.sources.s3.reading import Credentials, S3Source

REQUEST = LoadRequest(
    period=Period.of_month(2026, 10),
    source=S3Source(
        bucket="lake",
        template=KeyTemplate("t/{YYYY-MM}/"),
        endpoint_url="http://s3",
        credentials=Credentials(access_key_id="A", secret_access_key="s3cret"),
    ),
    target=TableName("db", "t"),
    cluster=None,
    default_cluster=None,
    staging_database=None,
    nonce="n",
    now=datetime(2026, 11, 1, tzinfo=UTC),
)


class TestPolicies:
    @pytest.mark.parametrize(
        ("name", "value", "expected"),
        [
            ("keep_versions", 2, None),
            ("keep_versions", -1, "use a whole number at least 0"),
            ("on_no_objects", "empty", None),
            ("on_no_objects", "ignore", "use one of fail, skip, empty"),
            ("on_no_objects", "", "use one of fail, skip, empty"),
            ("on_no_objects", None, "use one of fail, skip, empty"),
            ("on_target_changed", "reload", None),
            ("on_target_changed", "Fail", "use one of fail, reload, hold"),
            ("on_other_periods", "leave_out", None),
            ("on_other_periods", "load", "use one of fail, leave_out"),
            ("max_shrink_fraction", 0, None),
            ("max_shrink_fraction", 1, None),
            ("max_shrink_fraction", 1.01, "use a number at least 0 and at most 1"),
            ("max_shrink_fraction", -0.1, "use a number at least 0 and at most 1"),
            ("max_shrink_fraction", float("nan"), "use a number at least 0 and at most 1"),
            ("min_object_age_seconds", 0, None),
            ("min_object_age_seconds", -1, "use a number at least 0"),
        ],
    )
    def test_are_checked_where_they_are_made(self, name, value, expected):
        if expected is None:
            assert getattr(Policies(**{name: value}), name) == value
        else:
            with pytest.raises(ConfigurationError, match=f"{name}('])?=.*{expected}"):
                Policies(**{name: value})

    def test_are_cautious_by_default(self):
        assert Policies() == Policies(
            distribution="where_read",
            on_no_objects="fail",
            ready_key=None,
            min_object_age_seconds=0,
            max_shrink_fraction=0.5,
            replace_unknown=False,
            on_target_changed="fail",
            on_other_periods="fail",
        )


class TestDefinition:
    @pytest.mark.parametrize(
        "change",
        [
            {"selection": Selection(columns=("a",))},
            {"selection": Selection(columns=("a", "b"))},
            {"selection": Selection(columns=("b", "a"))},
            {"selection": Selection(select={"a": "b"})},
            {"selection": Selection(select={"a": "c"})},
            {"selection": Selection(null_as_default=True)},
            {"policies": Policies(on_other_periods="leave_out")},
            {"policies": Policies(distribution="sharding_key")},
            {"format": format_named("CSV")},
            {"compression": "gzip"},
        ],
    )
    def test_changes_with_what_is_made_of_the_objects(self, change):
        assert replace(REQUEST, **change).definition != REQUEST.definition

    @pytest.mark.parametrize(
        "change",
        [
            {"nonce": "other"},
            {"now": datetime(2027, 1, 1, tzinfo=UTC)},
            {"cluster": "c"},
            {"settings": {"max_insert_threads": 1}},
            {"policies": Policies(replace_unknown=True, on_no_objects="skip", on_target_changed="reload")},
        ],
    )
    def test_stays_where_the_rows_would_be_the_same(self, change):
        assert replace(REQUEST, **change).definition == REQUEST.definition

    def test_does_not_depend_on_the_order_of_select(self):
        one, other = ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
        assert (
            replace(REQUEST, selection=Selection(select=one)).definition
            == replace(REQUEST, selection=Selection(select=other)).definition
        )

    def test_is_the_same_in_every_version_of_this_package(self):
        assert REQUEST.definition == "44136fa355b3678a"


def manifest(*keys: str) -> Manifest:
    return Manifest.of(Unit(f"lake/{key}", 1, "e", datetime(2026, 10, 1, tzinfo=UTC)) for key in keys)


class TestFormat:
    @pytest.mark.parametrize(
        ("given", "keys", "name"),
        [
            (None, ["a.csv", "b.csv.gz"], "CSVWithNames"),
            ("CSV", ["a.csv"], "CSV"),
            ("Parquet", ["a", "b.txt"], "Parquet"),
            (None, [], "Parquet"),
            ("CSV", [], "CSV"),
        ],
    )
    def test_is_the_given_one_or_that_of_the_keys(self, given: Any, keys, name):
        request = replace(REQUEST, format=format_named(given) if given else None)
        assert request.format_of(manifest(*keys)).name == name

    def test_of_mixed_keys_names_one_key_of_each(self):
        with pytest.raises(
            ConfigurationError, match=r"several formats: a\.csv looks like CSVWithNames, b\.json like JSON"
        ):
            REQUEST.format_of(manifest("a.csv", "b.json"))

    def test_of_a_key_that_says_nothing_must_be_given(self):
        with pytest.raises(ConfigurationError, match="'b' names no format"):
            REQUEST.format_of(manifest("a.csv", "b"))


def test_a_request_can_be_printed_without_its_secrets():
    assert "s3cret" not in repr(REQUEST)


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
    ("on_deleted_objects", "remove", {}, {"policies": {"on_other_periods": "spread"}}),
    ("max_late_days", 30, {}, {"policies": {"on_other_periods": "spread"}}),
    ("on_target_changed", "hold", {"policies": {"on_other_periods": "spread"}}, {}),
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
