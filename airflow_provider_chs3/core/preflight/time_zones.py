"""Check that a time without a zone means the same on every node."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.cluster.time_zones import going_by_servers
from airflow_provider_chs3.core.values.models import SettingValues
from airflow_provider_chs3.exceptions import PreflightError


def check_zones(context: TargetContext, settings: SettingValues) -> None:
    """Check that all nodes have one time zone, or that the user's holds wherever it matters.

    Args:
        context: The facts; each node has the target.
        settings: The user's settings.

    Raises:
        PreflightError: If values would depend on the node that reads them.
    """
    if findings := list(zone_findings(context, settings)):
        raise PreflightError(findings)


def zone_findings(context: TargetContext, settings: SettingValues) -> Iterator[str]:
    """Yield a sentence for each way in which values depend on the node that reads them.

    Args:
        context: As in `check_zones`.
        settings: The user's settings.
    """
    if settings.get("session_timezone") == "":
        yield "settings={'session_timezone': ''} names no time zone: leave it out, or give a name like 'Europe/Berlin'."
    if len(context.server_zones) < 2:
        return
    zones = "; ".join(f"{zone} on {', '.join(map(str, nodes))}" for zone, nodes in context.server_zones.items())
    if not context.zone_of(settings):
        yield (
            f"The nodes have different time zones ({zones}), so a time without a zone would mean a different moment "
            "on each: set one timezone on all, or give the zone of such times, as in "
            "settings={'session_timezone': 'Europe/Berlin'}."
        )
    for what in going_by_servers(context.table_facts):
        yield (
            f"The nodes have different time zones ({zones}), and {context.target} computes {what} in the zone of each "
            "node, whatever session_timezone is: set one timezone on all, or recreate the table with zones in its "
            "times, as in DateTime('UTC')."
        )
