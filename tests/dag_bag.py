"""The reader of DAG files, from where the Airflow under test has it; importing it starts Airflow."""

from __future__ import annotations

try:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
except ModuleNotFoundError:  # Airflow 3.1
    from airflow.models.dagbag import DagBag, sync_bag_to_db

__all__ = ["DagBag", "sync_bag_to_db"]
