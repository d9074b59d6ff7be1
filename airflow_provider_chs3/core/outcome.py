"""Step 9 of a load: what it did, as a result and as a record."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_chs3.core.insert_plan import InsertPlan
from airflow_provider_chs3.core.inserting import Inserted, Staged
from airflow_provider_chs3.core.ledger import record
from airflow_provider_chs3.core.load import Load, values_of
from airflow_provider_chs3.core.models import LoadResult, Node, PartitionState
from airflow_provider_chs3.core.steps import AskNodes, Say, Steps
from airflow_provider_chs3.exceptions import Chs3Error


def result_of(
    load: Load,
    states: Mapping[Node, PartitionState],
    *,
    status: str,
    reason: str,
    plan: InsertPlan | None = None,
    inserted: Inserted | None = None,
    staged: Mapping[Node, Staged] | None = None,
) -> LoadResult:
    """What a load did.

    Args:
        load: The load.
        states: The month's partition on each node; empty where it appended.
        status: As in `LoadResult`.
        reason: Why it was loaded or not.
        plan: What was inserted; None where nothing was.
        inserted: What the inserts did.
        staged: What was staged on each node.
    """
    manifest = load.files.manifest
    # A row counts once, however many replicas have it.
    once = load.around.publishers
    rows = sum(state.rows for node, state in states.items() if node in once)
    return LoadResult(
        status=status,
        month=load.request.month,
        target=load.around.target,
        reason=reason,
        fingerprint=manifest.fingerprint,
        objects=len(manifest.objects),
        source_bytes=manifest.size_bytes,
        rows=inserted.stats.read_rows if inserted and not states else rows,
        rows_by_node={str(node): state.rows for node, state in states.items()},
        other_month_rows=sum(sum(staged[node].other_rows.values()) for node in once) if staged else 0,
        parts=sum(state.parts for state in states.values()),
        table_bytes=sum(state.size_bytes for node, state in states.items() if node in once),
        insert_seconds=inserted.stats.seconds if inserted else 0.0,
        peak_memory_bytes=inserted.stats.peak_memory_bytes if inserted else None,
        attempt=load.request.nonce,
        query_ids=inserted.query_ids if inserted else (),
        settings=plan.setting_values if plan else {},
        seconds_by_step=load.laps.seconds,
    )


def record_load(load: Load, plan: InsertPlan, result: LoadResult) -> Steps[None]:
    """Record what the load did, once, on the coordinator. If that fails, the month is published all the same.

    Args:
        load: The load.
        plan: What was inserted, and how.
        result: What it did.
    """
    details = {
        **result.as_json(),
        "setting_reasons": {each.name: each.reason for each in plan.settings},
        "memory_bytes": plan.memory_bytes,
        "memory_steps": plan.memory_steps,
    }
    try:
        yield from _record(load, "load", details)
    except Chs3Error as error:
        yield Say(name=f"The month is published, but what the load did could not be recorded: {error}")


def _record(load: Load, event: str, details: Mapping[str, object]) -> Steps[None]:
    # Whoever came after it, what a load did stays true; so this does not ask for its staging.
    coordinator = load.around.coordinator
    values = values_of(load, rows=0, state=PartitionState(), details=details)
    sql = record(load.around.ledger, load.key_on(coordinator), event, values)
    yield AskNodes(name=f"Record the {event}", sql={coordinator: sql})
