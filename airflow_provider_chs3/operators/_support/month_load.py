"""Load one month of objects into a ClickHouse table, exactly once, whatever the storage."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException, AirflowTaskTimeout

from airflow_provider_chs3.hooks.airflow_errors import airflow_errors
from airflow_provider_chs3.hooks.metrics import count_loads, count_merges, counts_failures
from airflow_provider_chs3.operators._support.months_page import OnMonthsPage
from airflow_provider_chs3.operators._support.openlineage import LoadLineage
from airflow_provider_chs3.operators._support.rendered_sql import ShowsSql
from airflow_provider_chs3.operators._support.tasks import LoadTask
from airflow_provider_chs3.operators.emit_month import emit_month

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.values.load_result import LoadResult
    from airflow_provider_chs3.core.workflow.operations import Insert
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook


class MonthLoad(OnMonthsPage, ShowsSql, LoadLineage, LoadTask):
    """Make a month's partition hold exactly the rows of its objects; arguments as in `S3ToClickHouseOperator`."""

    loads_months = True
    template_fields: Sequence[str] = (*LoadTask.template_fields, "insert_sql")
    template_fields_renderers: ClassVar[dict[str, str]] = {**LoadTask.template_fields_renderers, "insert_sql": "sql"}
    ui_color = "#fcf7d6"

    @counts_failures
    def execute(self, context: Context) -> dict[str, object]:
        """Load the month, or resume the load that an earlier try of this task started."""
        return self._load(context, resumes=None)

    @counts_failures
    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, object]:
        """Continue once the insert has ended.

        Args:
            context: Airflow's.
            event: The event of `InsertTrigger`.

        Raises:
            AirflowTaskTimeout: If the task took longer than its `execution_timeout`.
        """
        from airflow_provider_chs3.operators._support.load_request import load_request

        if event["is_late"]:
            self._request = load_request(self, context, self.listing(), resumes=event["attempt"])
            self.on_kill()
            raise AirflowTaskTimeout(f"The insert took longer than execution_timeout={self.execution_timeout}.")
        return self._load(context, resumes=event["attempt"])

    @counts_failures
    def merges_complete(
        self, context: Context, event: Mapping[str, Any], result: dict[str, object], since: float
    ) -> dict[str, object]:
        """Continue once the merges have settled.

        Args:
            context: Airflow's.
            event: The event of `MergeHealthTrigger`.
            result: The load's result.
            since: Start of the wait, in seconds since 1970.

        Raises:
            AirflowFailException: If a person must act on the merges.
        """
        from airflow_provider_chs3.runners.blocking import Runner

        self.link_to_page(context, Runner(**self._runner_arguments(self.hook()), listing=None), [str(result["month"])])
        if "error" in event:
            raise AirflowFailException(event["error"])
        return self.done(context, result, event["result"], since=since)

    def on_kill(self) -> None:
        """End the load's queries on every node, and drop its staging."""
        self.is_ended = self.cancel_on_kill
        if self._request is None or not self.cancel_on_kill:
            return
        # A signal may arrive during any import; once there is a request, this one has been done.
        from airflow_provider_chs3.operators._support.load_request import end_load

        self.log.info("Ending the queries of this load, and dropping its staging.")
        end_load(self._request, [self._request.month], **self._runner_arguments(self.hook()))

    @contextmanager
    def leaving_nothing(self) -> Iterator[None]:
        """End the load once more if `on_kill` interrupts it: a statement that was on its way may have followed."""
        try:
            yield
        except BaseException:
            if self.is_ended:
                self.on_kill()
            raise

    def _load(self, context: Context, *, resumes: str | None) -> dict[str, object]:
        from airflow_provider_chs3.core.load.outcome import report
        from airflow_provider_chs3.core.load.protocol import load_periods
        from airflow_provider_chs3.core.values.load_arguments import PolicyGroup
        from airflow_provider_chs3.core.values.merge_arguments import merge_health
        from airflow_provider_chs3.core.workflow.driving import drive
        from airflow_provider_chs3.operators._support.deferral import settle
        from airflow_provider_chs3.operators._support.load_request import load_request, load_runner

        with airflow_errors(), closing(self.pooled_hook()) as hook:
            self.check_append(PolicyGroup.of(self.policies).allow_duplicates)
            merge_health(self.merge_health)
            # One for all steps: making its client takes a tenth of a second.
            listing = self.listing()
            self._request = load_request(self, context, listing, resumes=resumes)
            context["month"] = str(self._request.month)  # type: ignore[typeddict-unknown-key]  # for map_index_template
            runner = load_runner(self, listing, wait=partial(self._wait, context), **self._runner_arguments(hook))
            self.inserts = runner.inserts
            self.link_to_page(context, runner, [str(self._request.month)])
            with self.leaving_nothing():
                loads = load_periods(self._request, [self._request.month])
                result = drive(loads, self.showing_sql(context, runner)).only()
        self._request = None
        context["outcome"] = result.status  # type: ignore[typeddict-unknown-key]  # for map_index_template
        count_loads(self, result)
        self.log.info("%s", report(result))
        self.refuse_in_reload(context, [result])
        if result.status == "skipped":
            raise AirflowSkipException(result.summary())
        if self.wait_for_merges:
            return settle(self, context, result, hook.deadline)
        return self.done(context, result.as_json())

    def refuse_in_reload(self, context: Context, results: Sequence[LoadResult]) -> None:
        """Fail if the run asks for a reload, and months are skipped that should not be.

        Args:
            context: Airflow's.
            results: The results of all months.

        Raises:
            AirflowFailException: If it does.
        """
        from airflow_provider_chs3.core.values.models import range_text

        skipped = [each for each in results if each.status == "skipped"]
        with airflow_errors():
            self.refuse_to_reload_without_objects(context, [str(each.month) for each in results if each.has_no_objects])
            if len(skipped) == len(results):
                months = range_text([each.month for each in skipped])
                self.refuse_to_reload_nothing(context, f"it loads {skipped[0].target} {months}")

    def done(
        self, context: Context, result: dict[str, object], merges: Any = None, *, since: float | None = None
    ) -> dict[str, object]:
        """Record and return the result with the verdicts on its merges; `since` is the start of the wait for them."""
        context["outcome"] = str(result["status"])  # type: ignore[typeddict-unknown-key]  # of a task that was deferred, too
        if merges is not None:
            count_merges(self, merges, waited_seconds=time.time() - since if since else None)
            result = result | {"merges": merges}
        self.results = [result]
        emit_month(self, context, result)
        return result

    def _runner_arguments(self, hook: ClickHouseHook) -> dict[str, Any]:
        return {"hook": hook, "log": self.log, "progress_interval_seconds": self.progress_interval_seconds}

    def _wait(self, context: Context, step: Insert) -> None:
        """Defer to the triggerer: this raises TaskDeferred."""
        from airflow_provider_chs3.operators._support.deferral import insert_trigger

        assert self._request is not None  # set before the load starts
        trigger = insert_trigger(self, context, step, self._request)
        self.defer(trigger=trigger, method_name="execute_complete")
