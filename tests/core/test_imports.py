"""Imports and their time: the core works alone, and an operator is cheap to parse."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("azure", "boto3", "botocore", "clickhouse_driver", "numpy", "pandas", "pyarrow")

CORE_ALONE = """
import importlib, pkgutil, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"airflow", "boto3", "botocore", "clickhouse_driver"}:
            raise ImportError(f"{name} is not for the core")

sys.meta_path.insert(0, Blocker())
import airflow_provider_chs3.core as core
for module in pkgutil.walk_packages(core.__path__, f"{core.__name__}."):
    importlib.import_module(module.name)
    if not module.ispkg:
        print(module.name)
"""


def run_python(source: str, *arguments: str) -> str:
    """Run it in a Python of its own, and give what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", source, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_of_the_core_works_without_airflow_driver_and_boto3():
    modules = run_python(CORE_ALONE).split()
    assert len(modules) == len(list((ROOT / "airflow_provider_chs3" / "core").rglob("[!_]*.py")))


#: The modules that each of these loads besides Airflow's own. Airflow is imported once, and each module in a
#: fork of that process.
LOADED_BY = """
import importlib, json, os, sys

for name in ("airflow.sdk", "airflow.providers.common.compat.sdk", "airflow.providers.common.sql.hooks.sql"):
    importlib.import_module(name)
of_airflow = set(sys.modules)
print(json.dumps({"airflow": sorted(of_airflow)}), flush=True)
for name in sys.argv[1:]:
    if os.fork() == 0:
        importlib.import_module(name)
        print(json.dumps({name: sorted(set(sys.modules) - of_airflow)}), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, name
"""
TRANSFERS = [
    f"airflow_provider_chs3.transfers.{name}_to_clickhouse"
    for name in ("s3", "azure_blob", "gcs", "hdfs", "mysql", "postgres")
]
#: What DAGs name, which Airflow reads again and again.
IN_DAGS = [
    "airflow_provider_chs3.load",
    "airflow_provider_chs3.transfers.scheduled_load",
    *(f"airflow_provider_chs3.operators.{name}" for name in ("emit_period", "ledger", "optimize")),
    *(f"airflow_provider_chs3.sensors.{name}" for name in ("clickhouse", "merge_health")),
]
#: The DAG of many tables, whose tasks are made as it is read.
DAG_FILE = "dags.chs3_many_tables"
OTHERS = [
    "airflow_provider_chs3.table",
    "airflow_provider_chs3.operators.plan_loads",
    "airflow_provider_chs3.hooks.clickhouse",
    "airflow_provider_chs3.client.runner",
    "airflow_provider_chs3.get_provider_info",
]


@pytest.fixture(scope="module")
def loaded_by() -> dict[str, set[str]]:
    """Module → what importing it loads, beside what Airflow itself does."""
    lines = run_python(LOADED_BY, *TRANSFERS, *IN_DAGS, *OTHERS, DAG_FILE).splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    loaded = {name: set(modules) for each in found for name, modules in each.items()}
    of_airflow = {name for name in loaded.pop("airflow") if name.startswith("airflow_provider_chs3.")}
    assert of_airflow <= {"airflow_provider_chs3.get_provider_info"}
    assert loaded.keys() == {*TRANSFERS, *IN_DAGS, *OTHERS, DAG_FILE}
    return loaded


def test_importing_it_loads_no_driver_and_no_boto3(loaded_by: dict[str, set[str]]) -> None:
    assert {name: heavy for name, loaded in loaded_by.items() if (heavy := loaded & set(HEAVY))} == {}


def test_reading_a_dag_imports_what_checks_arguments_and_nothing_that_loads(loaded_by: dict[str, set[str]]) -> None:
    checks = {
        "airflow_provider_chs3.core.arguments",
        *(
            f"airflow_provider_chs3.core.arguments.{each}"
            for each in (
                *("arrivals", "check_arguments", "declaration", "load_arguments", "merge_arguments"),
                "proof_arguments",
            )
        ),
    }
    loading = {"airflow_provider_chs3.hooks.clickhouse", "airflow_provider_chs3.client.runner"}
    for name in IN_DAGS:
        of_core = {each for each in loaded_by[name] if each.startswith("airflow_provider_chs3.core.")}
        assert (name, of_core - checks, loaded_by[name] & loading) == (name, set(), set())
