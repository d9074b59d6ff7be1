"""Wait until the merges of loaded periods have settled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException, BaseSensorOperator, PokeReturnValue

from airflow_provider_chs3.client.deadline import NEVER, Deadline
from airflow_provider_chs3.core.arguments.declaration import declared
from airflow_provider_chs3.core.arguments.merge_arguments import OF_SENSOR, Reactions, Thresholds
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.metrics import count_merges, counts_failures, running_seconds
from airflow_provider_chs3.hooks.running_task import TaskDeadline, airflow_errors
from airflow_provider_chs3.operators._support.on_table import OnLoadsPage

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.model.period import Period
    from airflow_provider_chs3.core.watch.watch import MergeWatch
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
    from airflow_provider_chs3.triggers.merge_health import MergeWait


class ClickHouseMergeHealthSensor(OnLoadsPage, BaseSensorOperator, takes=OF_SENSOR):
    """Wait until background merges of a table's periods have settled on every node.

    Each poke queries every node once and does not depend on earlier pokes, so the result is the same in every mode,
    deferred or not. For the verdicts see docs/merge-health.md.

    Returns:
        The overall verdict, and the verdict, parts, bytes and reason of each period on each node, as JSON-safe values.
    """

    ui_color = "#fcf7d6"
    period: str | None
    periods: Sequence[str | Mapping[str, Any]] | None
    on_settled_with_too_many_parts: str
    on_stuck: str
    deferrable: bool
    _watch: MergeWatch | None = None
    _deadline: Deadline = NEVER

    def _arguments_taken(self) -> None:
        self.thresholds = Thresholds(**{name: getattr(self, name) for name in declared(Thresholds)})

    def execute(self, context: Context) -> Any:
        """Poke until the merges have settled."""
        self._deadline = TaskDeadline(self.execution_timeout)
        return super().execute(context)

    @counts_failures
    def poke(self, context: Context) -> PokeReturnValue:
        """Check once; a deferrable sensor then defers if it has to wait.

        Raises:
            TaskDeferred: If it has to wait, and is deferrable.
        """
        from airflow_provider_chs3.core.watch.health import as_json

        with airflow_errors():
            periods = self._periods()
            self._label(context, periods)
            wait = self._wait(periods)
            hook = self.hook()
            hook.deadline = self._deadline
            self._link(context, hook, periods)
            # Kept between pokes, to estimate how long merges may still take.
            watch = self._watch = self._watch or wait.watch()
            self.log.info("%s %s", self.table, watch.judge(wait.merges.look(hook, periods)))
            verdicts = as_json(watch.verdicts)
            self._tell_outcome(context, verdicts)
            looked = PokeReturnValue(is_done=watch.is_over(), xcom_value=verdicts)
        if self.deferrable and not looked.is_done:
            self.defer(
                trigger=wait.trigger(),
                method_name=self.execute_complete.__name__,
                timeout=timedelta(seconds=self.timeout),
            )
        if looked.is_done:
            self._count(context, looked.xcom_value)
        return looked

    @counts_failures
    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> Any:
        """Return the trigger's result.

        Raises:
            AirflowFailException: If a person must act.
        """
        periods = self._periods()
        self._label(context, periods)
        self._link(context, self.hook(), periods)
        if "error" in event:
            raise AirflowFailException(event["error"])
        self._tell_outcome(context, event["result"])
        self._count(context, event["result"])
        return event["result"]

    def _count(self, context: Context, result: Any) -> None:
        count_merges(self, result, waited_seconds=running_seconds(context))

    def _wait(self, periods: tuple[Period, ...]) -> MergeWait:
        from airflow_provider_chs3.triggers.merge_health import MergeWait

        return MergeWait(
            merges=self.merges(),
            periods=periods,
            thresholds=self.thresholds,
            reactions=Reactions(
                on_settled_with_too_many_parts=self.on_settled_with_too_many_parts, on_stuck=self.on_stuck
            ),
            poll_interval_seconds=self.poke_interval,
        )

    def _link(self, context: Context, hook: ClickHouseHook, periods: Sequence[Period]) -> None:
        from airflow_provider_chs3.client.runner import Runner

        runner = Runner(session=hook, log=self.log)
        self.link_to_page(context, runner, [str(period) for period in periods])

    def _label(self, context: Context, periods: Sequence[Period]) -> None:
        """Set the period, or the periods, for `map_index_template`."""
        from airflow_provider_chs3.core.model.period import range_text

        if periods:
            context["period"] = range_text(periods)  # type: ignore[typeddict-unknown-key]

    @staticmethod
    def _tell_outcome(context: Context, verdicts: Mapping[str, object]) -> None:
        """Set the health of all periods together, as words, for `map_index_template`."""
        context["outcome"] = str(verdicts["health"]).replace("_", " ")  # type: ignore[typeddict-unknown-key]

    def _periods(self) -> tuple[Period, ...]:
        from airflow_provider_chs3.core.model.period import Period

        if bool(self.period) == (self.periods is not None):
            raise ConfigurationError("Set either period or periods, such as period='2026-10'.")
        if isinstance(self.periods, str):
            raise ConfigurationError(f"periods={self.periods!r} is not a list: pass a list, or period.")
        given = [self.period] if self.period else self.periods or ()
        names = {str(name) for item in given for name in (_periods_of(item) if isinstance(item, Mapping) else (item,))}
        return tuple(sorted(map(Period.parse, names)))


def _periods_of(result: Mapping[str, Any]) -> Iterator[object]:
    """Yield the periods that a load changed, as its result has them."""
    from airflow_provider_chs3.core.load.decision import changed_periods

    return (of_period["period"] for of_period in changed_periods(result))
