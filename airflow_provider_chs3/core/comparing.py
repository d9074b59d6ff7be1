"""Step 2 of a load: is the month loaded, and may it be loaded again?"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_provider_chs3.core.explaining import missing_parts
from airflow_provider_chs3.core.ledger import MonthOnNode
from airflow_provider_chs3.core.load import Load
from airflow_provider_chs3.core.models import Node
from airflow_provider_chs3.core.sql import Sql, literal
from airflow_provider_chs3.core.standing import Standing, evidence_of, standing
from airflow_provider_chs3.core.steps import AskNodes, Steps
from airflow_provider_chs3.exceptions import SourceError, TargetChangedError, TransientError

_BROKEN = "parts of it were broken when a server started, as after a power cut"


def compare(load: Load, before: Mapping[Node, MonthOnNode]) -> Steps[tuple[Standing, str]]:
    """Decide whether the month is loaded.

    Raises:
        TargetChangedError: If it holds rows of others, and nobody said to replace them.
        SourceError: If it shrank too much.
    """
    request, target = load.request, load.around.target
    found, nodes, why = standing(before, load.wanted, load.around.shape)
    if found is Standing.TARGET_CHANGED and (yield from _are_broken(load, {node: before[node] for node in nodes})):
        found, why = Standing.UNFINISHED, _BROKEN
    if found in (Standing.TARGET_CHANGED, Standing.ROWS_UNKNOWN):
        _check_absent(load, nodes)
    where = f"{target}, partition {load.key.partition_id}, on {', '.join(map(str, nodes))}"
    if found is Standing.ROWS_UNKNOWN and not request.policies.replace_unknown:
        raise TargetChangedError(
            f"{where}: {why}. To replace them by the objects' rows give replace_unknown=True; "
            "to keep them, load into another table."
        )
    if found is Standing.TARGET_CHANGED and request.policies.on_target_changed == "fail":
        raise TargetChangedError(
            f"{where}: {why}. A reload would undo that (rows that were erased on request would come back): "
            "if that is right, give on_target_changed='reload'."
        )
    if found is not Standing.UNCHANGED:
        _check_shrink(load, before)
    return found, why


def _are_broken(load: Load, months: Mapping[Node, MonthOnNode]) -> Steps[bool]:
    """Whether all that is gone of a published month are parts that a server put aside as it could not read them.

    Their blocks tell: those of every publication are others.
    """
    missing = {
        node: missing_parts(evidence, month.state)
        for node, month in months.items()
        if month.record and (evidence := evidence_of(month.record)) and month.record.event == "published"
    }
    if len(missing) < len(months) or not all(missing.values()):
        return False
    target = load.around.target
    sql = Sql(
        "SELECT min_block_number, max_block_number FROM system.detached_parts "
        f"WHERE database = {literal(target.database)} AND table = {literal(target.table)} "
        f"AND partition_id = {literal(load.key.partition_id)} AND position(name, 'broken') > 0"
    )
    ask = AskNodes(name="Look for parts that were broken when a server started", sql=dict.fromkeys(missing, sql))
    broken = yield ask
    return all(
        any(first <= part.min_block and part.max_block <= last for first, last in broken[node])
        for node, parts in missing.items()
        for part in parts
    )


def _check_absent(load: Load, nodes: Collection[Node]) -> None:
    """Stop where a replica that is down may have published what the others do not know of."""
    shards = {node.shard_num for node in nodes}
    absent = [node for node in load.around.absent if node.shard_num in shards]
    if absent and load.request.policies.on_target_changed == "fail":
        raise TransientError(
            f"{load.around.target}, {load.request.month}: {', '.join(map(str, nodes))} cannot tell whether a load or "
            f"somebody else wrote what is there. {', '.join(map(str, absent))}, which is down, may know: start it. "
            "on_target_changed='reload' loads the month in any case."
        )


def _check_shrink(load: Load, before: Mapping[Node, MonthOnNode]) -> None:
    published = [month.record.source_bytes for month in before.values() if month.record]
    was, is_now = max(published, default=0), load.files.manifest.size_bytes
    policies = load.request.policies
    wanted_empty = policies.on_no_objects == "empty" and not load.files.manifest.objects
    if is_now < was * (1 - policies.max_shrink_fraction) and not wanted_empty:
        raise SourceError(
            f"The objects of {load.request.month} shrank from {was} to {is_now} bytes since they were published, by "
            f"more than max_shrink_fraction={policies.max_shrink_fraction}: if that is right, raise it for this run."
        )
