"""Explain in one text why a period's merges are as they are on all nodes, and give the statement that helps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime

from airflow_provider_chs3.core.arguments.merge_arguments import Thresholds
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.sql.quoting import in_table, literal
from airflow_provider_chs3.core.sql.quoting import table as quoted
from airflow_provider_chs3.core.watch.health import Health, Verdict, overall


def reasons_by_node(verdicts: Sequence[Verdict]) -> str:
    """Return the reasons of the worst verdicts, each once, with the nodes that it is about and their parts.

    The speed of merges, and the time that is left, differ between nodes.
    """
    nodes: dict[str, list[str]] = defaultdict(list)
    worst = overall(verdicts)
    for verdict in verdicts:
        if verdict.health is worst:
            speed = f", {verdict.merge_rate}" if verdict.merge_rate and str(verdict.merge_rate) else ""
            nodes[verdict.reason].append(f"{verdict.state.node}: {quantity(verdict.state.parts, 'part')}{speed}")
    return "; ".join(f"{reason} ({'; '.join(names)})" for reason, names in nodes.items())


def have_to_wait(verdicts: Sequence[Verdict], thresholds: Thresholds) -> bool:
    """Check whether merges wait for a free thread for so long that they would be stuck, or a replica lags."""
    states = [verdict.state for verdict in verdicts if verdict.health is Health.SETTLING and not verdict.state.merges]
    return any(
        (state.replica and state.replica.delay_seconds > thresholds.max_replica_delay_seconds)
        or (state.pool_is_busy and state.unchanged_seconds >= thresholds.stuck_after_seconds)
        for state in states
    )


def unchanged_since(verdicts: Sequence[Verdict]) -> str:
    """Return since when merges make no progress, in UTC; empty if there are no verdicts.

    That is when the oldest failed mutation was sent, or else when the parts of the worst node changed last.
    """
    worst = overall(verdicts)
    failed = [
        verdict.state.at_seconds - mutation.age_seconds
        for verdict in verdicts
        for mutation in verdict.state.mutations
        if mutation.fail_reason
    ]
    idle = [
        verdict.state.at_seconds - verdict.state.unchanged_seconds for verdict in verdicts if verdict.health is worst
    ]
    times = failed or idle
    return utc_text(min(times)) if times else ""


def utc_text(at: float) -> str:
    """Return a Unix time as text in UTC, as records have theirs."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"


def way_out(verdicts: Sequence[Verdict], table: TableName) -> str:
    """Return the statement that unblocks a stuck period, for each node with it; empty if no single one does.

    It is not for ON CLUSTER, which a cluster without Keeper refuses.
    """
    failed = sorted(
        {mutation.command for verdict in verdicts for mutation in verdict.state.mutations if mutation.fail_reason}
    )
    if failed:
        commands = ", ".join(map(literal, failed))
        return f"KILL MUTATION WHERE {in_table(table)} AND command IN ({commands})"
    if any("SYSTEM START MERGES" in verdict.reason for verdict in verdicts):
        return f"SYSTEM START MERGES {quoted(table)}"
    return ""
