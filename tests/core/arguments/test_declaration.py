"""Arguments, each declared once."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_chs3.core.arguments.declaration import Argument, Group, declared
from airflow_provider_chs3.core.arguments.load_arguments import (
    COLUMNS,
    GROUPS,
    PARALLEL_LOADS,
    Casts,
    Files,
    PolicyGroup,
    Tuning,
)
from airflow_provider_chs3.core.arguments.merge_arguments import CLOSED_FOR_DAYS, merge_health
from airflow_provider_chs3.core.files.text_fields import Dialect
from airflow_provider_chs3.exceptions import ConfigurationError


@pytest.mark.parametrize(
    ("group", "given", "name", "value"),
    [
        # Templates render text.
        (PolicyGroup, {"max_shrink_fraction": "0.75"}, "max_shrink_fraction", 0.75),
        (PolicyGroup, {"replace_unknown": "True"}, "replace_unknown", True),
        (PolicyGroup, {"replace_unknown": "false"}, "replace_unknown", False),
        (PolicyGroup, {"ready_key": ""}, "ready_key", None),
        (PolicyGroup, {"min_object_age_seconds": 5}, "min_object_age_seconds", 5),
        (Casts, {"lossy_columns": ["fare"]}, "lossy_columns", ("fare",)),
        (Casts, {"naive_timestamps": ""}, "naive_timestamps", None),
        (Dialect, {"skip_lines": "2"}, "skip_lines", 2),
        (Dialect, {"quote": ""}, "quote", ""),
        (Files, None, "unproved_codecs", "refuse"),
    ],
)
def test_a_value_is_of_its_type(group: type[Group], given: Any, name: str, value: Any) -> None:
    assert getattr(group.of(given), name) == value


@pytest.mark.parametrize(
    ("group", "given", "message"),
    [
        (PolicyGroup, {"on_no_objects": "wait"}, "policies['on_no_objects']='wait' is not allowed: use one of fail, "),
        (PolicyGroup, {"on_no_objects": None}, "policies['on_no_objects']=None is not allowed: use one of fail, "),
        (PolicyGroup, {"max_shrink_fraction": 1.5}, "=1.5 is not allowed: use a number at least 0 and at most 1."),
        (PolicyGroup, {"max_shrink_fraction": "nan"}, "='nan' is not allowed: use a number at least 0 and at most 1."),
        (PolicyGroup, {"min_object_age_seconds": True}, "=True is not allowed: use a number at least 0."),
        (PolicyGroup, {"replace_unknown": "yes"}, "='yes' is not allowed: use True or False."),
        (
            PolicyGroup,
            {"no_objects": "skip", "x": 1},
            "policies has no_objects, x: it takes on_no_objects, ready_key, ",
        ),
        (PolicyGroup, ["skip"], "policies=['skip'] is not a dict: pass one, with any of on_no_objects, "),
        (Tuning, {"memory_share": 0}, "tuning['memory_share']=0 is not allowed: use a number above 0 and at most 1."),
        (Tuning, {"node_specs": "8 cores"}, "tuning['node_specs']='8 cores' is not allowed: use a dict."),
        # Its letters would be columns.
        (Casts, {"lossy_columns": "fare"}, "casts['lossy_columns']='fare' is not allowed: use a list of texts."),
        (Dialect, {"blank_lines": "skip"}, "csv['blank_lines']='skip' is not allowed: use one of fail, skip_last."),
        (Dialect, {"skip_lines": 1.5}, "csv['skip_lines']=1.5 is not allowed: use a whole number at least 0."),
        (Dialect, {"separator": ";"}, "csv has separator: it takes delimiter, quote, "),
    ],
)
def test_what_is_wrong_is_named_with_what_to_give(group: type[Group], given: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        group.of(given)
    assert message in str(raised.value)


@pytest.mark.parametrize("given", ["fare", "a, b", {"fare": 1}, [1], 7])
def test_columns_are_a_list_of_names(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^columns=.* is not allowed: use a list of texts\.$"):
        COLUMNS.checked(given)


def test_parallel_loads_are_a_number_above_none() -> None:
    with pytest.raises(ConfigurationError, match=r"^parallel_loads=0 is not allowed: use a whole number at least 1\.$"):
        PARALLEL_LOADS.checked(0)


@pytest.mark.parametrize("given", ["a week", "", None, "-1", float("inf"), "inf", "nan"])
def test_days_are_a_number(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^closed_for_days=.* is not allowed: use a number at least 0\.$"):
        CLOSED_FOR_DAYS.checked(given)


def test_a_wait_for_merges_takes_thresholds_and_reactions() -> None:
    thresholds, reactions = merge_health({"on_stuck": "wait", "spare_parts": 3})
    assert (thresholds.spare_parts, reactions.on_stuck) == (3, "wait")
    with pytest.raises(ConfigurationError, match="merge_health has spare_part: it takes spare_parts, "):
        merge_health({"spare_part": 3})


def test_an_argument_of_a_group_has_a_name_of_its_own() -> None:
    names = [name for kind in GROUPS.values() for name in declared(kind)]
    assert len(names) == len(set(names)) > 15


def test_the_default_is_told_once() -> None:
    assert Argument(name="a", help="A number.", default=3).described == "A number. Default: 3."
    assert Argument(name="a", help="A name.", default="x").described == "A name. Default: `x`."
    assert Argument(name="a", help="A name.", without="the DAG's").described == "A name. Default: the DAG's."
    assert Argument(name="a", help="A name.").described == "A name."
