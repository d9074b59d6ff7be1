"""What is imported when: the core works alone, and an operator is cheap to parse."""

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


def run_python(source: str) -> str:
    """Run it in a Python of its own, and give what it printed."""
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_of_the_core_works_without_airflow_driver_and_boto3():
    modules = run_python(CORE_ALONE).split()
    assert len(modules) == len(list((ROOT / "airflow_provider_chs3" / "core").rglob("[!_]*.py")))


def heavy_after(*imports: str) -> set[str]:
    """Which heavy libraries are loaded after these imports."""
    source = f"""
import importlib, json, sys
for name in {imports!r}:
    importlib.import_module(name)
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
"""
    return set(json.loads(run_python(source).splitlines()[-1]))


@pytest.fixture(scope="module")
def airflows_own() -> set[str]:
    """What Airflow loads by itself."""
    return heavy_after("airflow.sdk", "airflow.providers.common.compat.sdk", "airflow.providers.common.sql.hooks.sql")


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(
    "module",
    [
        "airflow_provider_chs3.transfers.monthly_load",
        "airflow_provider_chs3.operators.plan_months",
        "airflow_provider_chs3.transfers.s3_to_clickhouse",
        "airflow_provider_chs3.transfers.azure_blob_to_clickhouse",
        "airflow_provider_chs3.transfers.gcs_to_clickhouse",
        "airflow_provider_chs3.transfers.hdfs_to_clickhouse",
        "airflow_provider_chs3.transfers.mysql_to_clickhouse",
        "airflow_provider_chs3.transfers.postgres_to_clickhouse",
        "airflow_provider_chs3.hooks.clickhouse",
        "airflow_provider_chs3.runners.blocking",
        "airflow_provider_chs3.sensors.merge_health",
        "airflow_provider_chs3.get_provider_info",
    ],
)
def test_importing_it_loads_no_driver_and_no_boto3(module, airflows_own):
    assert heavy_after(module) - airflows_own == set()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "module",
    [
        "airflow_provider_chs3.transfers.monthly_load",
        *(f"airflow_provider_chs3.operators.{name}" for name in ("ledger", "optimize", "assets")),
        "airflow_provider_chs3.sensors.merge_health",
    ],
)
def test_reading_a_dag_imports_what_checks_arguments_and_nothing_that_loads(module):
    loaded = run_python(f"import sys, {module}; print(*(name for name in sys.modules if 'chs3.' in name))").split()
    of_core = {name for name in loaded if name.startswith("airflow_provider_chs3.core.")}
    assert of_core <= {"airflow_provider_chs3.core.values", "airflow_provider_chs3.core.values.arguments"}
    assert not {"airflow_provider_chs3.hooks.clickhouse", "airflow_provider_chs3.runners.blocking"} & set(loaded)
