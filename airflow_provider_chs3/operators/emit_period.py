"""Emit asset events, one for each published period, so that downstream DAGs run for these periods only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException, Asset, BaseOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


def emit_periods(
    task: BaseOperator,
    context: Context,
    result: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    key_format: str | None = None,
) -> None:
    """Add the periods to the events of the task's assets, or suppress the events if the load changed nothing.

    If Airflow supports partitions known at run time (3.3), each period has an event, whose partition key names it. A
    task has one `extra` for all events of an asset: if several periods are new, it describes all.

    Args:
        task: The running task, with the assets in its `outlets`.
        context: Airflow's.
        result: The load's result, or the results of a load of several periods.
        key_format: How partition keys are written, as in `EmitPeriodOperator`.
    """
    from airflow_provider_chs3.core.load.decision import OF_EVENT, changed_periods

    of_loads = [result] if isinstance(result, Mapping) else result
    # An arrival changes other periods than its own.
    results = [values for of_load in of_loads for values in changed_periods(of_load)]
    entries: list[Any] = [
        {name: values[name] for name in OF_EVENT} | {"partition_key": _key(values["period"], key_format)}
        for values in results
        if _is_new(values)
    ]
    if not entries:
        # Airflow emits an event for every outlet of a task that succeeds.
        task.outlets = []
    for asset in task.outlets:
        if isinstance(asset, Asset):
            event = context["outlet_events"][asset]
            event.extra = entries[0] if len(entries) == 1 else {"periods": entries}
            if hasattr(event, "add_partitions"):
                event.add_partitions([entry["partition_key"] for entry in entries])


def _is_new(result: Mapping[str, Any]) -> bool:
    """Check whether a load changed a period of its table, or of the table of a view that follows."""
    return any(values["status"] == "published" for values in (result, *result.get("views", ())))


def _key(period: str, key_format: str | None) -> str:
    from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Grain, Period

    loaded = Period.parse(period)
    if key_format is None or loaded is WHOLE_TABLE:
        return period
    return loaded.begin.replace(tzinfo=UTC if loaded.grain is Grain.HOUR else None).strftime(key_format)


class EmitPeriodOperator(BaseOperator):
    """Emit the asset events of periods that an earlier task loaded: the last task of `scheduled_load`.

    If the load changed nothing, the task is skipped and emits nothing. If the load failed for some of its periods, the
    others have their events, provided that the task's `trigger_rule` lets it run.

    Args:
        result: The result of `S3ToClickHouseOperator`, or its results of several periods.
        merges: The result of the `ClickHouseMergeHealthSensor` that waited for the periods. If it failed, nothing is
            emitted. Default: there is none.
        outlets: The assets.
        key_format: The partition keys of the events: the beginnings of the periods in this format, such as
            `%Y-%m-%dT%H:%M:%S`, which mappers of Airflow read by themselves; hours in UTC. Default: the period's text,
            such as `2026-10-05`.
    """

    template_fields: Sequence[str] = ("result", "merges")
    ui_color = "#e8f0d8"

    def __init__(self, *, result: Any, merges: Any = None, key_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.key_format = key_format
        self.result = result
        self.merges = merges
        self._waits_for_merges = merges is not None

    def execute(self, context: Context) -> None:
        """Emit the events.

        Raises:
            AirflowSkipException: If the load changed nothing, or it or the wait for merges failed.
        """
        from airflow_provider_chs3.core.model.period import Period, range_text

        if not self.result or (self._waits_for_merges and not self.merges):
            raise AirflowSkipException("The load, or the wait for its merges, failed: no event is emitted.")
        results = [self.result] if isinstance(self.result, Mapping) else self.result
        periods = range_text([Period.parse(result["period"]) for result in results])
        statuses = dict.fromkeys(result["status"] for result in results)
        is_new = any(map(_is_new, results))
        context["period"] = periods  # type: ignore[typeddict-unknown-key]  # for map_index_template
        context["outcome"] = "emitted" if is_new else ", ".join(statuses)  # type: ignore[typeddict-unknown-key]  # likewise
        if not is_new:
            raise AirflowSkipException(f"{periods} is {' and '.join(statuses)}: no event is emitted.")
        emit_periods(self, context, self.result, key_format=self.key_format)
