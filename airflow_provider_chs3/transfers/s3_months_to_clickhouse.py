"""Load several months of S3 objects into a ClickHouse table, exactly once, with one task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_provider_chs3.core.values.arguments import REQUIRED
from airflow_provider_chs3.core.values.load_arguments import MONTHS
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.airflow_errors import airflow_errors
from airflow_provider_chs3.hooks.metrics import count_loads, counts_failures
from airflow_provider_chs3.operators._support.declared import takes
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.request.load_request import LoadRequest
    from airflow_provider_chs3.core.values.load_result import LoadResult
    from airflow_provider_chs3.core.values.models import Month


@takes(
    replace(MONTHS, help=f"{MONTHS.help} Up to 100 share a statement.", type="Sequence[str] | str", default=REQUIRED)
)
class S3MonthsToClickHouseOperator(S3ToClickHouseOperator):
    """Make the partition of each of several months hold exactly the rows of that month's objects.

    The operator lists the objects of all months at once, inserts those that changed with one statement, and publishes
    month by month. For small months, that takes a fraction of the time that separate tasks would take. A month that
    fails does not stop the others: the task fails at its end, names the months, and a retry loads them alone.

    Months are loaded one after the other where they cannot share a statement: with `null_as_default` in `casts`, with
    `on_other_months` in `policies`, or if the column of the partition key is not loaded.

    It takes the arguments of `S3ToClickHouseOperator` except `month`, `deferrable`, `wait_for_merges`,
    `write_mode='append'` and `outlets`, because a task emits one event for each asset. For any of these, `monthly_load`
    creates a task for each month.

    Returns:
        The results of `S3ToClickHouseOperator`, a list in the order of the months.
    """

    template_fields: Sequence[str] = (
        *(name for name in S3ToClickHouseOperator.template_fields if name != "month"),
        "months",
    )

    def __init__(self, *, months: Sequence[str] | str, **kwargs: Any) -> None:
        super().__init__(**{"deferrable": False, **kwargs})
        self.months = months
        self._check_kind()

    @property
    def argument_for_month(self) -> None:
        """None: the months are given."""

    @counts_failures
    def execute(self, context: Context) -> list[dict[str, object]]:  # type: ignore[override]  # of several months
        """Load the months.

        Raises:
            AirflowSkipException: If no month has objects, and that is not an error.
        """
        from airflow_provider_chs3.core.load.protocol import load_periods
        from airflow_provider_chs3.core.values.models import range_text
        from airflow_provider_chs3.core.values.run_month import parse_months
        from airflow_provider_chs3.core.workflow.driving import drive
        from airflow_provider_chs3.operators._support.load_request import load_request, load_runner

        with airflow_errors(), closing(self.pooled_hook()) as hook:
            self._check_kind()
            months = tuple(sorted(parse_months(self.months)))
            listing = self.listing()
            self._request = load_request(self, context, listing, resumes=None, month=months[0])
            context["month"] = range_text(months)  # type: ignore[typeddict-unknown-key]  # for map_index_template
            runner = load_runner(self, listing, wait=lambda _: None, **self._runner_arguments(hook))
            self.inserts = runner.inserts
            self.link_to_page(context, runner, map(str, months))
            with self.leaving_nothing():
                outcome = drive(load_periods(self._request, months), self.showing_sql(context, runner))
            results = [outcome.results[month] for month in months if month in outcome.results]
            self._tell(results)
            if outcome.error:
                raise outcome.error
            counts = Counter(str(each["status"]) for each in self.results)
            context["outcome"] = ", ".join(  # type: ignore[typeddict-unknown-key]  # for map_index_template
                status if len(counts) == 1 else f"{count} {status}" for status, count in counts.items()
            )
        self._request = None
        self.refuse_in_reload(context, results)
        if all(each["status"] == "skipped" for each in self.results):
            raise AirflowSkipException(f"Nothing to load: {'; '.join(dict.fromkeys(each.reason for each in results))}.")
        return [dict(each) for each in self.results]

    def on_kill(self) -> None:
        """End the load's queries on every node, and drop its staging."""
        self.is_ended = self.cancel_on_kill
        if self._request is None or not self.cancel_on_kill:
            return
        from airflow_provider_chs3.operators._support.load_request import end_load

        self.log.info("Ending the queries of this load, and dropping its staging.")
        end_load(self._request, self._months_of_task(self._request), **self._runner_arguments(self.hook()))

    def _months_of_task(self, request: LoadRequest) -> Sequence[Month]:
        """Return the months that the task was to load."""
        from airflow_provider_chs3.core.values.run_month import parse_months

        return sorted(parse_months(self.months))

    def _tell(self, results: Sequence[LoadResult]) -> None:
        count_loads(self, *results)
        for result in results:
            self.log.info("%s", result.summary())
        self.results = [each.as_json() for each in results]

    def _check_kind(self) -> None:
        """Check that nothing is asked for that takes a task for each month.

        Raises:
            ConfigurationError: If it is.
        """
        asked = {
            "month": self.has_month,
            "deferrable": self.deferrable,
            "wait_for_merges": self.wait_for_merges,
            "outlets": bool(self.outlets),
            "write_mode='append'": self.write_mode == "append",
        }
        if found := [name for name, is_asked in asked.items() if is_asked]:
            raise ConfigurationError(
                f"{', '.join(found)}: a task of several months does not take this. Map S3ToClickHouseOperator over the "
                "months, or use monthly_load, which does that where needed."
            )
