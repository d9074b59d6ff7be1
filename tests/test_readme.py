"""The README's examples are true, and the reference knows every field."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

from airflow_provider_chs3.client.connection import KNOWN_EXTRAS
from airflow_provider_chs3.operators.optimize import OptimizePartitionOperator

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE = ROOT / "docs" / "reference"
CONNECTION = (REFERENCE / "connection.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_dags_are_such_that_airflow_takes_them(airflow_db: Path, tmp_path: Path) -> None:
    from tests.support.dag_bag import DagBag

    for number, block in enumerate(each for each in _blocks("python") if "with DAG(" in each):
        (tmp_path / f"trips_{number}.py").write_text(block)
    bag = DagBag(tmp_path)
    assert (sorted(bag.dags), bag.import_errors) == (["trips_nightly"], {})


def test_the_nightly_dag_has_at_most_12_lines() -> None:
    assert len([line for line in _blocks("python")[0].splitlines() if line]) <= 12


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 130


def test_the_connection_is_one_that_the_hook_takes() -> None:
    from airflow.providers.common.compat.sdk import Connection

    from airflow_provider_chs3.client.connection import ConnectionOptions

    given = json.loads(_blocks("json")[0])
    options = ConnectionOptions.from_airflow(
        Connection(conn_id="chs3_default", **given | {"extra": json.dumps(given["extra"])})
    )
    assert (len(options.hosts), options.cluster, options.node_specs["default"].cores) == (1, "main", 8)


def test_the_reference_knows_the_connections_fields() -> None:
    assert [name for name in KNOWN_EXTRAS if f"`{name}`" not in CONNECTION] == []


def test_the_how_to_of_merging_knows_its_operators_arguments() -> None:
    how_to = (ROOT / "docs" / "how-to" / "optimize.md").read_text()
    names = set(inspect.signature(OptimizePartitionOperator).parameters) - {"kwargs"}
    assert [name for name in sorted(names) if f"`{name}`" not in how_to] == []
