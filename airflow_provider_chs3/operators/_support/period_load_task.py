"""Load periods of objects into a ClickHouse table, exactly once, whatever the storage."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow import __version__
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException, AirflowTaskTimeout

from airflow_provider_chs3.core.arguments.load_arguments import OF_LOADS, check_groups, is_by_arrival
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.metrics import count_loads, count_merges, counts_failures, gauge_freshness
from airflow_provider_chs3.hooks.running_task import airflow_errors, owner_of
from airflow_provider_chs3.operators._support.declared import take_storage
from airflow_provider_chs3.operators._support.on_table import OnLoadsPage
from airflow_provider_chs3.operators._support.openlineage import LoadLineage
from airflow_provider_chs3.operators._support.period_task import PeriodTask
from airflow_provider_chs3.operators.emit_period import emit_periods
from airflow_provider_chs3.plugin.constants import SQL_KEY

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.client.deadline import Deadline
    from airflow_provider_chs3.client.listing import Listing
    from airflow_provider_chs3.client.runner import Runner
    from airflow_provider_chs3.core.load.decision import LoadResult
    from airflow_provider_chs3.core.load.load_request import LoadRequest
    from airflow_provider_chs3.core.model.period import Period
    from airflow_provider_chs3.core.periods.following import View
    from airflow_provider_chs3.core.steps.operations import Insert
    from airflow_provider_chs3.exceptions import Chs3Error
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
    from airflow_provider_chs3.sources.storage import Storage


class PeriodLoadTask(OnLoadsPage, LoadLineage, PeriodTask, takes=OF_LOADS):
    """Make a period's partition hold exactly the rows of its objects; arguments as in `S3ToClickHouseOperator`."""

    period: str | None
    periods: Sequence[str] | str | None
    create_table: str
    views: str
    checks: Mapping[str, Any] | None
    parallel_loads: int | None
    progress_interval_seconds: float
    deferrable: bool
    durable: bool
    wait_for_merges: bool
    merge_health: Mapping[str, Any] | None
    settings: Mapping[str, Any] | None
    policies: Mapping[str, Any] | None
    tuning: Mapping[str, Any] | None
    cancel_on_kill: bool

    loads_periods = True
    template_fields: Sequence[str] = ("insert_sql",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"insert_sql": "sql"}
    ui_color = "#fcf7d6"
    #: Airflow shows rendered fields as they were before the task ran, unless it reads them again when it has.
    #: Before 3.2 that would end a try which is to be retried with an error, without its callbacks.
    overwrite_rtif_after_execution = tuple(int(number) for number in __version__.split(".")[:2]) >= (3, 2)
    #: For Airflow's registry: with `durable`, a retry resumes what a killed worker began, by the servers' records.
    __supports_durable_execution: ClassVar[bool] = True
    #: The insert that it sends, where people look for it in Airflow's UI; without credentials.
    insert_sql = ""

    def __init_subclass__(
        cls, *, storage: type[Storage] | None = None, called: Mapping[str, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        if storage:
            take_storage(cls, storage, called or {})

    def _arguments_taken(self) -> None:
        self.has_period, self.has_periods = self.period is not None, self.periods is not None
        if self.has_period and self.has_periods:
            raise ConfigurationError(f"period={self.period!r}, periods={self.periods!r}: set one of the two.")
        check_groups(vars(self))

    @property
    def argument_for_period(self) -> str | None:
        """The argument that would set the task's period; see `PeriodTask`."""
        return None if self.has_period or self.has_periods else "period"

    @property
    def detaches_inserts(self) -> bool:
        """Return whether inserts continue without their worker."""
        # The insert of an arrival is one of several steps that only its own process knows.
        return (self.deferrable or self.durable) and not is_by_arrival(self.policies)

    @counts_failures
    def execute(self, context: Context) -> Any:
        """Load the periods, or resume the load that an earlier try of this task started."""
        return self._load(context, resumes=None)

    @counts_failures
    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> Any:
        """Continue once the insert has ended."""
        if event["is_late"]:
            self._ask(context, self.store.listing(), resumes=event["attempt"])
            self.on_kill()
            raise AirflowTaskTimeout(f"The insert took longer than execution_timeout={self.execution_timeout}.")
        return self._load(context, resumes=event["attempt"])

    @counts_failures
    def merges_complete(
        self, context: Context, event: Mapping[str, Any], results: Sequence[dict[str, object]], since: float
    ) -> Any:
        """Continue once the merges have settled."""
        from airflow_provider_chs3.client.runner import Runner

        runner = Runner(**self._runner_arguments(self.hook()))
        self.link_to_page(context, runner, [str(result["period"]) for result in results])
        if "error" in event:
            raise AirflowFailException(event["error"])
        return self.done(context, results, event["result"], since=since)

    def on_kill(self) -> None:
        """End the load's queries on every node, and drop its staging."""
        self.is_ended = self.cancel_on_kill
        if self._request is None or not self.cancel_on_kill:
            return
        # A signal may arrive during any import; once there is a request, these have been done.
        from airflow_provider_chs3.client.runner import Runner
        from airflow_provider_chs3.core.load.end_on_request import StopRequest, stop_load

        self.log.info("Ending the queries of this load, and dropping its staging.")
        stop = StopRequest.of(self._request, self._loading)
        Runner(**self._runner_arguments(self.hook()), in_turns=True).run(stop_load(stop))

    @contextmanager
    def leaving_nothing(self) -> Iterator[None]:
        """End the load once more if `on_kill` interrupts it: a statement that was on its way may have followed."""
        try:
            yield
        except BaseException:
            if self.is_ended:
                self.on_kill()
            raise

    def _load(self, context: Context, *, resumes: str | None) -> Any:
        from airflow_provider_chs3.client.runner import Runner
        from airflow_provider_chs3.core.arguments.merge_arguments import merge_health
        from airflow_provider_chs3.core.load.decision import published_periods
        from airflow_provider_chs3.core.load.protocol import load_periods
        from airflow_provider_chs3.core.model.period import range_text

        with airflow_errors(), closing(self.pooled_hook()) as hook:
            merge_health(self.merge_health)
            # One for all steps: making its client takes a tenth of a second.
            listing = self.store.listing()
            request = self._ask(context, listing, resumes=resumes)
            periods = self._loading
            context["period"] = range_text(periods)  # type: ignore[typeddict-unknown-key]  # for map_index_template
            wait, on_insert = partial(self._wait, context), partial(self._show_insert, context)
            runner = self._load_runner(listing, wait=wait, on_insert=on_insert, **self._runner_arguments(hook))
            self.inserts = ()
            self.link_to_page(context, runner, map(str, periods))
            # The periods that an arrival changes are known once it is loaded.
            is_spread = is_by_arrival(self.policies)
            views = () if is_spread else self._views(runner, request, periods)
            with self.leaving_nothing():
                outcome = runner.run(load_periods(request, periods))
            results = [outcome.results[period] for period in periods if period in outcome.results]
            self._tell(results)
            if is_spread:
                views = self._views(runner, request, [result.period for result in published_periods(results)])
            of_views = Runner(listing=listing, **self._runner_arguments(hook))
            if error := self._follow(of_views, views, results) or outcome.error:
                # For what follows the periods that are loaded: a task that fails returns nothing.
                done = [result for result in self.results if len(result.get("views", ())) == len(views)]
                if done and (ti := context.get("ti")) is not None:
                    ti.xcom_push(key="return_value", value=done)
                raise error
            self._label(context, self.results)
            deadline = hook.deadline
        self._request = None
        return self._end(context, results, deadline)

    def _end(self, context: Context, results: Sequence[LoadResult], deadline: Deadline) -> Any:
        """Return what the task returns, or wait for its merges."""
        from airflow_provider_chs3.core.load.decision import published_periods

        everything = [*results, *self.followed]
        self.refuse_in_reload(context, everything)
        if all(result.status in ("skipped", "held") for result in everything):
            if any(result.status == "held" for result in results) and (ti := context.get("ti")) is not None:
                # For the task that asks a person about them: one that is skipped returns nothing.
                ti.xcom_push(key="return_value", value=self.results if self.has_periods else self.results[0])
            raise AirflowSkipException(" ".join(result.summary() for result in results))
        if self.wait_for_merges:
            return self._settle(context, published_periods(results), deadline)
        return self.done(context, self.results)

    def _settle(self, context: Context, results: Sequence[LoadResult], deadline: Deadline) -> Any:
        """Wait until the merges of loaded periods have settled; a deferrable task leaves its worker for it."""
        from airflow_provider_chs3.core.arguments.merge_arguments import merge_health
        from airflow_provider_chs3.core.watch.health import as_json
        from airflow_provider_chs3.triggers.merge_health import MergeWait

        since, hook = time.time(), self.hook()
        hook.deadline = deadline
        with airflow_errors():
            thresholds, reactions = merge_health(self.merge_health)
            wait = MergeWait(
                merges=self.merges(),
                periods=tuple(result.period for result in results),
                thresholds=thresholds,
                reactions=reactions,
                poll_interval_seconds=self.progress_interval_seconds,
            )
            watch = wait.watch()
            while True:
                self.log.info("%s %s", self.table, watch.judge(wait.merges.look(hook, wait.periods)))
                if watch.is_over() or self.deferrable:
                    break
                hook.deadline.sleep(watch.interval_seconds)
        if watch.is_over():
            return self.done(context, self.results, as_json(watch.verdicts), since=since)
        return self.defer(
            trigger=wait.trigger(),
            method_name="merges_complete",
            kwargs={"results": self.results, "since": since},
            timeout=self.execution_timeout,
        )

    def _views(self, runner: Runner, request: LoadRequest, periods: Sequence[Period]) -> Sequence[View]:
        """Return the views whose tables are loaded, too, once it is certain that each can be."""
        if not (request.follows_views and periods):
            return ()
        from airflow_provider_chs3.core.periods.following import find_views

        return runner.run(find_views(request, periods))

    def _follow(self, runner: Runner, views: Sequence[View], results: Sequence[LoadResult]) -> Chs3Error | None:
        """Load the tables of views, once their bases are published, and return the first error."""
        assert self._request is not None  # the load of the table that they follow
        if not self._request.follows_views:
            return None
        from airflow_provider_chs3.core.load.decision import published_periods
        from airflow_provider_chs3.core.periods.following import follow

        request, periods = self._request, self._loading

        def begin(request: LoadRequest, periods: Sequence[Period]) -> None:
            self._request, self._loading = request, periods

        with self.leaving_nothing():
            followed = runner.run(follow(request, views, published_periods(results), begin=begin))
        begin(request, periods)
        self.followed = tuple(followed.results.values())
        count_loads(self, *self.followed)
        self.results = [
            {
                **values,
                "views": [of_view for of in published_periods([result]) for of_view in followed.of(views, of.period)],
            }
            for values, result in zip(self.results, results, strict=True)
        ]
        return followed.error

    def _show_insert(self, context: Context, step: Insert) -> None:
        from airflow_provider_chs3.client.runner import shown_sql

        self.inserts = (*self.inserts, step)
        self.insert_sql = shown_sql(step)
        if (ti := context.get("ti")) is not None:
            ti.xcom_push(key=SQL_KEY, value=self.insert_sql)

    def _ask(self, context: Context, listing: Listing, *, resumes: str | None) -> LoadRequest:
        """Set and return what is asked of the load, and set its periods."""
        # `on_kill` needs it as soon as there is a request, and a signal may arrive during any import.
        import airflow_provider_chs3.core.load.end_on_request  # noqa: F401
        from airflow_provider_chs3.core.sql.complete_answers import is_about_reading

        self._loading = self._periods(context)
        reload = self.reload_of_run(context)
        if left_out := sorted(name for name in self.hook().options.settings if is_about_reading(name)):
            self.log.warning(
                "Ignoring the connection's settings %s, as they change what is read from files: set them in the "
                "operator's settings if the files need them.",
                ", ".join(left_out),
            )
        self._request = self.on_connection(self.hook()).request(
            self.as_load(),
            self._loading[0],
            listing=listing,
            parallel_loads=self.parallel_loads,
            reload=reload,
            owner=owner_of(context),
            is_durable=self.detaches_inserts,
            resumes=resumes,
        )
        return self._request

    def _load_runner(self, listing: Listing, *, wait: Callable[[Insert], None], **arguments: Any) -> Runner:
        from airflow_provider_chs3.client.detached_runner import DetachingRunner
        from airflow_provider_chs3.client.runner import Runner

        if self.detaches_inserts:
            return DetachingRunner(listing=listing, wait=wait if self.deferrable else None, **arguments)
        return Runner(listing=listing, **arguments)

    def _periods(self, context: Context) -> Sequence[Period]:
        """Return the task's periods, else that of the run."""
        from airflow_provider_chs3.core.model.period import Period, parse_periods

        if self.has_periods:
            if periods := parse_periods(self.periods):
                return periods
            self.refuse_to_reload_nothing(context, reason := "periods is empty")
            raise AirflowSkipException(f"Nothing to load: {reason}.")
        if self.has_period:
            if self.period is None or str(self.period).strip() in ("", "None"):
                raise ConfigurationError(
                    f"period={self.period!r}: its template rendered to nothing. Set a value for it in the run, or "
                    "leave period out for the run's own period."
                )
            return [Period.parse(self.period)]
        reload = self.reload_of_run(context)
        return [reload.period if reload else self.period_of_run(context, self.grain())]

    def _tell(self, results: Sequence[LoadResult]) -> None:
        from airflow_provider_chs3.operators._support.load_report import report

        count_loads(self, *results)
        complete = [result.period for result in results if result.status in ("published", "unchanged")]
        gauge_freshness(self, self.as_load().due, complete)
        for result in results:
            self.log.info("%s", result.summary() if self.has_periods else report(result))
        self.results = [result.as_json() for result in results]

    def refuse_in_reload(self, context: Context, results: Sequence[LoadResult]) -> None:
        """Fail if the run asks for a reload, and periods are skipped that should not be."""
        from airflow_provider_chs3.core.model.period import range_text

        skipped = [result for result in results if result.status == "skipped"]
        with airflow_errors():
            self.refuse_to_reload_without_objects(
                context, [str(result.period) for result in results if result.has_no_objects]
            )
            if len(skipped) == len(results):
                periods = range_text([result.period for result in skipped])
                # This run's own periods were inspected; they are pinned.
                pinned = (result.reason for result in skipped if result.seconds_by_step)
                reason = next(pinned, f"it loads {skipped[0].target} {periods}")
                self.refuse_to_reload_nothing(context, reason)

    def done(
        self, context: Context, results: Sequence[dict[str, object]], merges: Any = None, *, since: float | None = None
    ) -> Any:
        """Record and return results with the verdicts on their merges; `since` is the start of the wait for them."""
        self._label(context, results)
        if merges is not None:
            count_merges(self, merges, waited_seconds=time.time() - since if since else None)
            results = [result | {"merges": _of_periods(merges, result)} for result in results]
        self.results = results
        result = list(results) if self.has_periods else results[0]
        emit_periods(self, context, result)
        return result

    def _label(self, context: Context, results: Sequence[Mapping[str, object]]) -> None:
        """Set what came of the periods, for `map_index_template`."""
        counts = Counter(str(result["status"]) for result in results)
        context["outcome"] = ", ".join(  # type: ignore[typeddict-unknown-key]
            status if len(counts) == 1 else f"{count} {status}" for status, count in counts.items()
        )

    def _runner_arguments(self, hook: ClickHouseHook) -> dict[str, Any]:
        return {"session": hook, "log": self.log, "progress_interval_seconds": self.progress_interval_seconds}

    def _wait(self, context: Context, step: Insert) -> None:
        """Defer to the triggerer: this raises TaskDeferred."""
        from airflow_provider_chs3.core.load.end_on_request import StopRequest
        from airflow_provider_chs3.triggers.insert import InsertTrigger

        assert self._request is not None  # set before the load starts
        load = StopRequest.of(self._request, [self._request.period])
        trigger = InsertTrigger(
            query_id=step.query_id,
            cluster=step.cluster,
            total_rows=step.total_rows,
            **InsertTrigger.times_of(self, context),
            # The attempt that is waited for may be another process's.
            load=replace(load, nonce=step.attempt).as_json(),
            clickhouse_conn_id=self.clickhouse_conn_id,
            poll_interval_seconds=self.progress_interval_seconds,
            cancel_on_kill=self.cancel_on_kill,
        )
        self.defer(trigger=trigger, method_name="execute_complete")


def _of_periods(merges: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    from airflow_provider_chs3.core.load.decision import changed_periods

    periods = {of_period["period"] for of_period in changed_periods(result)}
    return dict(merges, periods={name: nodes for name, nodes in merges["periods"].items() if name in periods})
