"""The reader of DAG files, from where the Airflow under test has it; importing it starts Airflow."""

from __future__ import annotations

import json
from pathlib import Path

try:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
except ModuleNotFoundError:  # Airflow 3.1
    from airflow.models.dagbag import DagBag, sync_bag_to_db

__all__ = ["DagBag", "bundles_in", "sync_bag_to_db"]


def bundles_in(folder: Path) -> str:
    """Return the value of `[dag_processor] dag_bundle_config_list` for the DAG files of a folder."""
    bundle = {
        "name": "of-test",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(folder)},
    }
    return json.dumps([bundle])
