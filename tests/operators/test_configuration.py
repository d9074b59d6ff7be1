"""Section `[chs3]` of Airflow's configuration: declared, documented, and doing what it says."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_chs3 import defaults
from airflow_provider_chs3.get_provider_info import OPTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")

#: The effect of each option, as expressions in a process that has read the configuration.
EFFECTS = {
    "clickhouse_conn_id": (
        "LOAD.clickhouse_conn_id",
        "SENSOR.clickhouse_conn_id",
        "MERGE.clickhouse_conn_id",
        "ClickHouseHook().get_conn_id()",
        "of_shell(parser().parse_args(['clean'])).get_conn_id()",
    ),
    "aws_conn_id": (
        "LOAD.store.aws_conn_id",
        "S3Objects(key='{YYYY-MM}/').aws_conn_id",
        "DeltaTable(uri='s3://l/t', time_column='m').aws_conn_id",
        "KafkaToS3Operator(task_id='k', topic='t', key='{YYYY-MM}/', bucket='b').aws_conn_id",
        "asked('plan', '--table', 't', '--key', 'k').aws_conn_id",
    ),
    "progress_interval_seconds": ("LOAD.progress_interval_seconds", "STATEMENT.progress_interval_seconds"),
    "optimize_poll_interval_seconds": ("MERGE.poll_interval_seconds",),
    "page_query_timeout_seconds": ("hook_of('chs3_here').options.settings['max_execution_time']",),
    "page_cache_seconds": ("min(each._seconds for each in gc.get_objects() if type(each) is SharedAnswers)",),
}
PROGRAM = """
import gc, json
from airflow_provider_chs3.cli.arguments import parser
from airflow_provider_chs3.cli.loads import choose_loads
from airflow_provider_chs3.cli.loads import hook_of as of_shell
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.sources.delta import DeltaTable
from airflow_provider_chs3.sources.s3 import S3Objects
from airflow_provider_chs3.operators.clickhouse import ClickHouseOperator
from airflow_provider_chs3.operators.optimize import OptimizePartitionOperator
from airflow_provider_chs3.plugin.app import create_app
from airflow_provider_chs3.plugin.cache import SharedAnswers
from airflow_provider_chs3.plugin.connections import hook_of
from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
from airflow_provider_chs3.transfers.kafka_to_s3 import KafkaToS3Operator
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

LOAD = S3ToClickHouseOperator(task_id="load", table="t", key="s3://b/{YYYY-MM}/")
SENSOR = ClickHouseMergeHealthSensor(task_id="merges", table="t", period="2026-01")
STATEMENT = ClickHouseOperator(task_id="statement", sql="SELECT 1")
MERGE = OptimizePartitionOperator(task_id="merge", table="t")
APP = create_app()

def asked(*words):
    (chosen,) = choose_loads(parser().parse_args(words))
    return chosen.load.store
"""


def _set(**options: str) -> dict[str, str]:
    """The environment with options of the section."""
    return os.environ | {f"AIRFLOW__CHS3__{name.upper()}": value for name, value in options.items()}


def test_every_option_is_read_when_the_defaults_are() -> None:
    assert {name.lower() for name in vars(defaults) if name.isupper() and name[0] != "_"} == set(OPTIONS)


def test_every_option_is_documented_with_its_default() -> None:
    in_page = dict(re.findall(r"^\| `(\w+)` \| `(.+?)` \|", PAGE, re.MULTILINE))
    assert in_page == {name: option["default"] for name, option in OPTIONS.items()}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_as_declared_unless_it_is_set(name: str) -> None:
    value = getattr(defaults, name.upper())
    assert value == type(value)(OPTIONS[name]["default"])


def test_airflow_knows_the_section() -> None:
    from airflow.providers_manager import ProvidersManager

    config = dict(ProvidersManager().provider_configs)["airflow-provider-chs3"]
    assert config["chs3"]["options"] == OPTIONS


def test_every_option_changes_what_it_says() -> None:
    given = {name: option["example"] for name, option in OPTIONS.items()}
    place = {"conn_type": "chs3", "host": "127.0.0.1", "extra": {"cluster": "main"}}
    expressions = [(name, effect) for name in OPTIONS for effect in EFFECTS[name]]
    asked = ", ".join(each for _, each in expressions)
    done = subprocess.run(
        [sys.executable, "-c", f"{PROGRAM}\nprint('\\n' + json.dumps([{asked}]))"],
        env=_set(**given) | {"AIRFLOW_CONN_CHS3_HERE": json.dumps(place)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.strip().splitlines()[-1])
    kinds = {"string": str, "float": float}
    expected = [kinds[OPTIONS[name]["type"]](given[name]) for name, _ in expressions]
    assert dict(zip(expressions, found, strict=True)) == dict(zip(expressions, expected, strict=True))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("clickhouse_conn_id", " ", "[chs3] clickhouse_conn_id is empty: set the id of a connection"),
        ("page_cache_seconds", "0", "[chs3] page_cache_seconds = 0: set a number of seconds above 0"),
        ("page_cache_seconds", "nan", "[chs3] page_cache_seconds = nan: set a number of seconds above 0"),
        ("progress_interval_seconds", "often", '"progress_interval_seconds" key in "chs3" section'),
    ],
)
def test_a_wrong_value_is_named(name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"AIRFLOW__CHS3__{name.upper()}", value)
    with pytest.raises(Exception, match=re.escape(message)):
        runpy.run_path(defaults.__file__)
