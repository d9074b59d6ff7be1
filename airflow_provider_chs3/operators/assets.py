"""Asset events: one for each month that a load has published, so that what follows runs for these months alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow import sdk
from airflow.providers.common.compat.sdk import AirflowSkipException, Asset, BaseOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

#: What an event tells of its month, of what the load returned.
_TOLD = ("month", "status", "reason", "target", "rows", "source_bytes", "objects", "parts", "fingerprint")
_NEW = frozenset({"published", "appended"})


def emit_month(task: BaseOperator, context: Context, result: Mapping[str, Any]) -> None:
    """Tell Airflow what its event of the task's assets is about; or have it emit none, if the load changed nothing.

    Where Airflow has partitions that are known at run time (3.3), the month is the event's partition key.

    Args:
        task: The task that runs, with the assets in its `outlets`.
        context: Airflow's.
        result: What the load returned.
    """
    if result["status"] not in _NEW:
        # Airflow emits an event for every outlet of a task that succeeds.
        task.outlets = []
    for asset in task.outlets:
        if isinstance(asset, Asset):
            event = context["outlet_events"][asset]
            event.extra = {name: result[name] for name in _TOLD}
            if hasattr(event, "add_partitions"):
                event.add_partitions(result["month"])


class EmitMonthOperator(BaseOperator):
    """Emit the events of a month that was loaded before this task: the last of a month's tasks in `monthly_load`.

    It is skipped, and emits nothing, where the load changed nothing.

    Args:
        result: What `S3ToClickHouseOperator` returned.
        outlets: The assets.
    """

    template_fields: Sequence[str] = ("result",)
    ui_color = "#e8f0d8"

    def __init__(self, *, result: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.result = result

    def execute(self, context: Context) -> None:
        """Emit."""
        month, status = self.result["month"], self.result["status"]
        context["month"] = month  # type: ignore[typeddict-unknown-key]  # for map_index_template
        if status not in _NEW:
            raise AirflowSkipException(f"{month} is {status}: there is nothing to tell.")
        emit_month(self, context, self.result)


def each_month(asset: Asset) -> Any:
    """The schedule of a DAG that runs for months which loads have published.

    From Airflow 3.3 on it has a run for each of them, whose partition key is the month. Older versions give it one run
    for all that were published since its last one. `emitted_months` tells the months of a run, on all versions.

    Args:
        asset: The one in the load's `outlets`.

    Returns:
        What `DAG(schedule=…)` takes.
    """
    # 3.2 has partitions too, but not from tasks that find out which.
    if hasattr(sdk, "PartitionedAtRuntime"):
        return sdk.PartitionedAssetTimetable(assets=asset, default_partition_mapper=sdk.IdentityMapper())
    return [asset]


def emitted_months(context: Context) -> list[dict[str, Any]]:
    """The months that a run of a DAG scheduled by `each_month` is about.

    Args:
        context: Of a task of the run.

    Returns:
        What the newest event of each month tells: month, status, reason, target, rows, source_bytes, objects, parts and
        fingerprint. A run that was started by hand has none.
    """
    events = [event for events in context["triggering_asset_events"].values() for event in events]
    newest = {event.extra["month"]: event.extra for event in sorted(events, key=lambda event: event.timestamp)}
    return [newest[month] for month in sorted(newest)]
