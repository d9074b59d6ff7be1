"""The links that Airflow's UI shows for a task."""

from __future__ import annotations

from airflow_provider_chs3.plugin.links import MonthsPageLink

__all__ = ["MonthsPageLink"]
