"""Load one month of S3 objects into a ClickHouse table, exactly."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException, AirflowTaskTimeout, conf

from airflow_provider_chs3.core.values.arguments import SHARED
from airflow_provider_chs3.hooks.airflow_errors import airflow_errors
from airflow_provider_chs3.hooks.metrics import count_load, count_merges, counts_failures
from airflow_provider_chs3.operators._support.append import check_append
from airflow_provider_chs3.operators._support.openlineage import LoadLineage
from airflow_provider_chs3.operators._support.rendered_sql import ShowsSql
from airflow_provider_chs3.operators._support.tasks import LoadTask
from airflow_provider_chs3.operators.assets import emit_month
from airflow_provider_chs3.operators.monthly import MonthlyOperator
from airflow_provider_chs3.plugin.links import OnMonthsPage

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.workflow.operations import Insert
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook


class S3ToClickHouseOperator(OnMonthsPage, ShowsSql, LoadLineage, LoadTask):
    """Make a month's partition hold exactly the rows of that month's objects.

    The objects (keys, sizes, ETags) are compared with what was last published. If nothing changed, nothing is touched;
    else they are loaded into a staging table by all nodes at once, counted, and put into place with REPLACE PARTITION.
    Running it again, after whatever error, leads to the same end.

    Besides the arguments of `MonthlyOperator` (table, objects, credentials) it takes these.

    Args:
        month: `YYYY-MM`. Default: the run's partition key, else the month of its data interval; in a run that is asked
            to reload a month (`core.request.reload`), that one.
        file_format: Such as `Parquet` or `CSVWithNames`. Default: by the keys' endings.
        compression: Such as `gzip`. Default: by the keys' endings.
        columns: Columns to load. Default: all that the table takes.
        select: Instead of `columns`: column of the table → row-wise expression over the files' columns, which are
            strings in text formats.
        null_as_default: NULL in a column that cannot hold it becomes the column's default. Default: it is an error.
        lossy_columns: Columns whose values may lose what does not fit: digits beyond the scale, parts of a second, the
            time of day. Default: that is an error.
        naive_timestamps: What timestamps without a zone mean in files that carry types: `utc`, or `column_zone`, the
            zone of their column. Default: an error where that is not the same.
        csv: How CSV is written: `delimiter`, `quote`, `null`, `skip_lines`, `trim`, `blank_lines` (see
            `core.source.csv_dialect.Dialect`). Default: commas, double quotes, and a backslash with N for NULL.
        write_mode: `replace`; or `append`, which inserts into the table itself, so that a retry doubles rows.
        allow_duplicates: Allow `append` together with retries.
        distribution: `where_read`: each node keeps the rows of the files that it reads, which is fast. `sharding_key`:
            each row goes to the shard that the key of the Distributed table says, which one node does for all.
        on_no_objects: `fail` (a retry helps if they come late), `skip` the month, or publish it `empty`.
        ready_key: An object that must exist, such as `_SUCCESS`; beside the month's objects where it holds no `/`.
            It may be a template.
        min_object_age_seconds: Younger objects may still be written, so the task fails for a retry to look again.
            Default: 0.
        max_shrink_fraction: Stop where the month lost more than this part of its published bytes. Default: 0.5.
        replace_unknown: Replace rows that no load is known to have put there, instead of stopping.
        on_target_changed: `fail`, or `reload` a month that somebody else changed since it was published.
        on_other_months: `fail`, or `leave_out` rows that belong to another month.
        count_again: Read files that are not Parquet twice, to count their rows. Default: where the insert is no proof.
        settings: ClickHouse settings for the insert; they win over computed ones.
        node_specs: Host, `host:port` or `default` → `{"cores": 8, "memory": "32GiB"}`; they win over the connection's,
            and those over the nodes' macros `cores` and `memory`. What nobody declares is measured.
        memory_share: The part of each node's memory that all loads together may use, above 0 and at most 1. Default:
            0.5, for nodes that also do other work; 1 where a load is alone.
        parallel_months: How many months load at the same time: each takes so much less of cores and memory. Default:
            by the nodes and the data, so many that all cores have work: 1 where a month is small.
        use_calibration: Settings may be those that `CalibrateLoadOperator` found for the table. Default: True.
        progress_interval_seconds: Time between two lines of progress in the log. Default: 10.
        deferrable: Leave the worker while ClickHouse inserts: the insert is started over HTTP, so that it goes on by
            itself, and the triggerer waits for it. A retry goes on with it, too. `append` is never deferred. Default:
            Airflow's `[operators] default_deferrable`.
        cancel_on_kill: End the load on all nodes if a person fails or clears the task, or the worker is told to stop.
            Default: True.
        wait_for_merges: End only when the month's merges have settled, too. Default: False; `monthly_load` has a sensor
            for it, which shows as a task of its own.
        merge_health: Arguments of `ClickHouseMergeHealthSensor`, such as `on_stuck` or `settled_after_seconds`.

    Returns:
        Status, rows, rows by node, bytes, objects, parts, seconds, settings and ids of the load, as JSON-safe values;
        and `merges`, with the verdict on each node, where it waited for them.
    """

    template_fields: Sequence[str] = (
        *MonthlyOperator.template_fields,
        "month",
        "file_format",
        "compression",
        "columns",
        "select",
        "lossy_columns",
        "naive_timestamps",
        "csv",
        "write_mode",
        "distribution",
        "on_no_objects",
        "ready_key",
        "on_target_changed",
        "on_other_months",
        "settings",
        "node_specs",
        "insert_sql",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("select", "csv", "settings", "node_specs"), "json"),
        "insert_sql": "sql",
    }
    ui_color = "#fcf7d6"

    def __init__(
        self,
        *,
        month: str | None = None,
        file_format: str | None = None,
        compression: str | None = None,
        columns: Sequence[str] | None = None,
        select: Mapping[str, str] | None = None,
        null_as_default: bool = False,
        lossy_columns: Sequence[str] | None = None,
        naive_timestamps: str | None = None,
        csv: Mapping[str, Any] | None = None,
        write_mode: str = "replace",
        allow_duplicates: bool = False,
        distribution: str = "where_read",
        on_no_objects: str = "fail",
        ready_key: str | None = None,
        min_object_age_seconds: float = 0,
        max_shrink_fraction: float = 0.5,
        replace_unknown: bool = False,
        on_target_changed: str = "fail",
        on_other_months: str = "fail",
        count_again: bool = False,
        settings: Mapping[str, str | int] | None = None,
        node_specs: Mapping[str, Mapping[str, Any]] | None = None,
        memory_share: float = SHARED,
        parallel_months: int | None = None,
        use_calibration: bool = True,
        progress_interval_seconds: float = 10,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        cancel_on_kill: bool = True,
        wait_for_merges: bool = False,
        merge_health: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.month = month
        self.has_month = month is not None
        self.file_format = file_format
        self.compression = compression
        self.columns = columns
        self.select = select
        self.null_as_default = null_as_default
        self.lossy_columns = lossy_columns
        self.naive_timestamps = naive_timestamps
        self.csv = csv
        self.write_mode = write_mode
        self.allow_duplicates = allow_duplicates
        self.distribution = distribution
        self.on_no_objects = on_no_objects
        self.ready_key = ready_key
        self.min_object_age_seconds = min_object_age_seconds
        self.max_shrink_fraction = max_shrink_fraction
        self.replace_unknown = replace_unknown
        self.on_target_changed = on_target_changed
        self.on_other_months = on_other_months
        self.count_again = count_again
        self.settings = settings
        self.node_specs = node_specs
        self.memory_share = memory_share
        self.parallel_months = parallel_months
        self.use_calibration = use_calibration
        self.progress_interval_seconds = progress_interval_seconds
        self.deferrable = deferrable
        self.cancel_on_kill = cancel_on_kill
        self.wait_for_merges = wait_for_merges
        self.merge_health = merge_health
        self._check_append()

    @counts_failures
    def execute(self, context: Context) -> dict[str, object]:
        """Load the month; or go on with what an earlier try of this task has started."""
        return self._load(context, resumes=None)

    @counts_failures
    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, object]:
        """Go on once the insert has ended.

        Args:
            context: Airflow's.
            event: What `InsertTrigger` sends.

        Raises:
            AirflowTaskTimeout: The task has taken longer than its `execution_timeout`.
        """
        from airflow_provider_chs3.operators._support.load_request import load_request

        if event["is_late"]:
            self._request = load_request(self, context, self.listing(), resumes=event["attempt"])
            self.on_kill()
            raise AirflowTaskTimeout(f"The insert took longer than execution_timeout={self.execution_timeout}.")
        return self._load(context, resumes=event["attempt"])

    @counts_failures
    def merges_complete(
        self, context: Context, event: Mapping[str, Any], result: dict[str, object], since: float | None = None
    ) -> dict[str, object]:
        """Go on once the merges have settled.

        Args:
            context: Airflow's.
            event: What `MergeHealthTrigger` sends.
            result: What the load has done.
            since: When the wait began, in seconds since 1970; None where an older version of this package deferred.

        Raises:
            AirflowFailException: A person must act on the merges.
        """
        from airflow_provider_chs3.runners.blocking import Runner

        self.link_to_page(context, Runner(**self._runner_arguments(self.hook()), listing=None), [str(result["month"])])
        if "error" in event:
            raise AirflowFailException(event["error"])
        return self.done(context, result, event["result"], since=since)

    def on_kill(self) -> None:
        """End the load's queries on every node, and drop its staging."""
        if self._request is None or not self.cancel_on_kill:
            return
        # A signal comes amid any import, but this one is done where there is a request.
        from airflow_provider_chs3.operators._support.load_request import end_load

        self.log.info("Ending the queries of this load, and dropping its staging.")
        end_load(self._request, **self._runner_arguments(self.hook()))

    def _load(self, context: Context, *, resumes: str | None) -> dict[str, object]:
        from airflow_provider_chs3.core.load.outcome import report
        from airflow_provider_chs3.core.load.protocol import load_month
        from airflow_provider_chs3.core.workflow.driving import drive
        from airflow_provider_chs3.operators._support.deferral import check_merge_health, settle
        from airflow_provider_chs3.operators._support.load_request import load_request, load_runner

        with airflow_errors(), closing(self.pooled_hook()) as hook:
            self._check_append()
            check_merge_health(self.merge_health or {})
            # One for all: its client takes a tenth of a second to make.
            listing = self.listing()
            self._request = load_request(self, context, listing, resumes=resumes)
            context["month"] = str(self._request.month)  # type: ignore[typeddict-unknown-key]  # for map_index_template
            runner = load_runner(self, listing, wait=partial(self._wait, context), **self._runner_arguments(hook))
            self.inserts = runner.inserts
            self.link_to_page(context, runner, [str(self._request.month)])
            result = drive(load_month(self._request), self.showing_sql(context, runner))
        self._request = None
        count_load(self, result)
        if took := report(result):
            self.log.info("%s", took)
        self.log.info("%s", result.summary())
        if result.status == "skipped":
            raise AirflowSkipException(result.summary())
        if self.wait_for_merges:
            return settle(self, context, result)
        return self.done(context, result.as_json())

    def done(
        self, context: Context, result: dict[str, object], merges: Any = None, *, since: float | None = None
    ) -> dict[str, object]:
        """End with a result, and with what became of the merges; `since` is when the wait for them began."""
        if merges is not None:
            count_merges(self, merges, waited_seconds=time.time() - since if since else None)
            result = result | {"merges": merges}
        self.result = result
        emit_month(self, context, result)
        return result

    def _check_append(self) -> None:
        check_append(write_mode=self.write_mode, retries=self.retries, allow_duplicates=self.allow_duplicates)

    def _runner_arguments(self, hook: ClickHouseHook) -> dict[str, Any]:
        return {"hook": hook, "log": self.log, "progress_interval_seconds": self.progress_interval_seconds}

    def _wait(self, context: Context, step: Insert) -> None:
        """Have the triggerer wait: this raises TaskDeferred."""
        from airflow_provider_chs3.operators._support.deferral import insert_trigger

        assert self._request is not None  # it is what runs
        trigger = insert_trigger(self, context, step, self._request)
        self.defer(trigger=trigger, method_name="execute_complete")
