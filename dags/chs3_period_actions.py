"""Forget, merge, discard, restore or unpin periods: the DAG of the loads page's actions, which the package has."""

from __future__ import annotations

from airflow_provider_chs3.transfers.period_actions import dag

__all__ = ["dag"]
