"""Reloads that the conf of a run asks for."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.load.reload import Reload, reload_of
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.exceptions import ConfigurationError

OCTOBER = Period.of_month(2026, 10)
ASKED = {"database": "d", "table": "t", "periods": ["2026-10"]}


@pytest.mark.parametrize("conf", [None, {}, {"periods": ["2026-10"]}])
def test_a_conf_may_ask_for_nothing(conf):
    assert reload_of(conf) is None


@pytest.mark.parametrize(
    "conf",
    [
        {"chs3_relod": ASKED},
        {"chs3_reload ": ASKED},
        {"CHS3_RELOAD": ASKED},
        {"chs3-reload": ASKED},
        {"chs3": {"reload": ASKED}},
        {"chs3_period": "2026-10"},
        {"ch3_reload": ASKED},
        {"chs3_reload": ASKED, "chs3_replace_rows_of_others": True},
    ],
)
def test_a_key_that_is_nearly_ours_is_refused_with_the_one_that_there_is(conf):
    with pytest.raises(ConfigurationError, match=r"conf has '.*', which has no meaning.* only key is chs3_reload, wh"):
        reload_of(conf)


@pytest.mark.parametrize(
    "conf", [{"reload": True}, {"reload": {"cache": 1}}, {"clickhouse": {}}, {"s3_reload": "yes"}, {"periods_ch": {}}]
)
def test_keys_of_others_are_left_alone(conf):
    assert reload_of(conf) is None
    assert reload_of(conf | {"chs3_reload": ASKED}) is not None


def test_it_names_the_table_and_the_periods():
    asked = reload_of({"chs3_reload": {**ASKED, "periods": ["2026-10", "2026-09"]}})
    assert asked == Reload(target=TableName("d", "t"), periods=(Period.of_month(2026, 9), OCTOBER))


@pytest.mark.parametrize("name", ["replace_rows_of_others", "allow_shrink", "approve"])
def test_more_is_allowed_only_if_it_says_so(name):
    assert [getattr(reload_of({"chs3_reload": ASKED | more}), name) for more in ({}, {name: False}, {name: True})] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    "asked",
    [
        "2026-10",
        {"table": "t", "periods": ["2026-10"]},
        ASKED | {"periods": []},
        ASKED | {"periods": [10]},
        ASKED | {"table": ["t"]},
        ASKED | {"replace_rows_of_others": "no"},
        ASKED | {"replace_rows_of_others": 1},
        ASKED | {"allow_shrink": "true"},
        ASKED | {"force": True},
    ],
)
def test_what_is_asked_wrongly_is_refused_with_an_example(asked):
    with pytest.raises(ConfigurationError, match=r'has chs3_reload=.*which takes .*such as \{"chs3_reload": '):
        reload_of({"chs3_reload": asked})


def test_what_is_no_period_is_refused():
    with pytest.raises(ConfigurationError, match="'2026-13' is not a period"):
        reload_of({"chs3_reload": ASKED | {"periods": ["2026-13"]}})
