"""Paths of earlier releases: each still works for one, and says what to write instead."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
from airflow.utils.deprecation_tools import DeprecatedImportWarning

MOVED = {
    "operators.monthly_load": ("transfers.monthly_load", "monthly_load"),
    "operators.s3_months_to_clickhouse": ("transfers.s3_months_to_clickhouse", "S3MonthsToClickHouseOperator"),
    "operators.s3_to_clickhouse": ("transfers.s3_to_clickhouse", "S3ToClickHouseOperator"),
}


@pytest.mark.parametrize(("old", "new", "name"), [(old, *new) for old, new in MOVED.items()])
def test_the_old_path_gives_the_same_object_and_names_the_new_one(old: str, new: str, name: str) -> None:
    of_new = getattr(importlib.import_module(f"airflow_provider_chs3.{new}"), name)
    old_module = importlib.import_module(f"airflow_provider_chs3.{old}")
    with pytest.warns(DeprecatedImportWarning, match=rf"airflow_provider_chs3\.{new}\.{name}"):
        assert getattr(old_module, name) is of_new


def test_an_old_dag_imports_the_operator_in_a_fresh_process_and_shows_the_warning() -> None:
    code = (
        "from airflow_provider_chs3.operators.s3_to_clickhouse import S3ToClickHouseOperator as c; print(c.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.endswith("airflow_provider_chs3.transfers.s3_to_clickhouse\n"), done.stderr
    assert "removed in 0.3.0" in done.stdout + done.stderr


def test_what_has_not_moved_is_still_missing() -> None:
    with pytest.raises(ImportError):
        exec("from airflow_provider_chs3.operators.s3_to_clickhouse import Nothing")
