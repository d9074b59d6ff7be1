"""Emit asset events, one for each published month, so that downstream DAGs run for these months only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException, Asset, BaseOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

#: The fields of a load's result that its event carries.
_TOLD = ("month", "status", "reason", "target", "rows", "source_bytes", "objects", "parts", "fingerprint")
_NEW = frozenset({"published", "appended"})


def emit_month(task: BaseOperator, context: Context, result: Mapping[str, Any]) -> None:
    """Add the month to the events of the task's assets, or suppress the events if the load changed nothing.

    If Airflow supports partitions known at run time (3.3), the month is the event's partition key.

    Args:
        task: The running task, with the assets in its `outlets`.
        context: Airflow's.
        result: The load's result.
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
    """Emit the asset events of a month that an earlier task loaded: the last task of a month in `monthly_load`.

    If the load changed nothing, the task is skipped and emits nothing.

    Args:
        result: The result of `S3ToClickHouseOperator`.
        outlets: The assets.
    """

    template_fields: Sequence[str] = ("result",)
    ui_color = "#e8f0d8"

    def __init__(self, *, result: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.result = result

    def execute(self, context: Context) -> None:
        """Emit the events.

        Raises:
            AirflowSkipException: If the load changed nothing.
        """
        month, status = self.result["month"], self.result["status"]
        is_new = status in _NEW
        context["month"] = month  # type: ignore[typeddict-unknown-key]  # for map_index_template
        context["outcome"] = "emitted" if is_new else status  # type: ignore[typeddict-unknown-key]  # likewise
        if not is_new:
            raise AirflowSkipException(f"{month} is {status}: no event is emitted.")
        emit_month(self, context, self.result)
