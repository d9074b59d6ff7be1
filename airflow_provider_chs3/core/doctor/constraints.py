"""Check which settings profiles forbid: the user's, and that of the user with which nodes connect to each other."""

from __future__ import annotations

from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.preflight.profile_constraints import check_passed_on, find_constraints
from airflow_provider_chs3.core.source.store_kind import StoreKind
from airflow_provider_chs3.core.sql.server_defaults import neutral_settings
from airflow_provider_chs3.core.tuning.exact_settings import needed_settings
from airflow_provider_chs3.core.values.models import SettingValues
from airflow_provider_chs3.core.workflow.operations import Steps
from airflow_provider_chs3.exceptions import Chs3Error, PreflightError


def needed_by_loads(store: StoreKind) -> SettingValues:
    """Return the settings that every load with the usual arguments needs.

    Args:
        store: The kind of storage that is read.
    """
    return needed_settings(null_as_default=False, by_sharding_key=False, store=store)


def find_forbidden(context: TargetContext, *, needed: SettingValues, own: SettingValues) -> Steps[tuple[str, ...]]:
    """Return a sentence for each setting that loads need and a profile forbids.

    Args:
        context: The nodes that answer.
        needed: What `needed_by_loads` returned.
        own: The connection's settings that loads use.
    """
    findings: list[str] = []
    if not context.nodes:
        return ()
    try:
        findings += yield from find_constraints(context.nodes, needed, own=own)
        yield from check_passed_on(context, {**neutral_settings(context.reading_defaults, {}), **needed})
    except PreflightError as error:
        findings += error.findings
    except Chs3Error:
        # Other checks report a node that does not answer, and refused settings are found already.
        pass
    return tuple(findings)
