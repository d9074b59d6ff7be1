"""List a table's published periods, and maintain its ledger: adopt, forget, clean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator

from airflow_provider_chs3.core.arguments.load_arguments import (
    OF_CLEANING,
    OF_LEDGERS,
    OLDER_THAN_SECONDS,
    templated,
)
from airflow_provider_chs3.core.arguments.proof_arguments import PROVE
from airflow_provider_chs3.defaults import CLICKHOUSE_CONN_ID
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.airflow_errors import airflow_errors
from airflow_provider_chs3.operators._support.declared import takes
from airflow_provider_chs3.operators._support.on_table import OnTable
from airflow_provider_chs3.operators.prove import ComparedPeriodsOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.load.cleanup_on_request import Orphan
    from airflow_provider_chs3.core.periods.adopt import AdoptedPeriod
    from airflow_provider_chs3.core.periods.forget import ForgottenPeriod
    from airflow_provider_chs3.core.periods.objects import LoadedObject
    from airflow_provider_chs3.core.periods.status import LedgerRequest, PeriodInLedger


#: The error of tasks that need periods.
NO_PERIODS = "No periods are given: name them, such as periods=['2026-10']."


@takes(*OF_LEDGERS)
class LedgerOperator(OnTable, BaseOperator):
    """The base of operators on a table's ledgers."""

    template_fields: Sequence[str] = templated(OF_LEDGERS)
    ui_color = "#e8e4d8"

    def __init__(
        self,
        *,
        table: str,
        periods: Sequence[str] | str | None = None,
        database: str | None = None,
        cluster: str | None = None,
        staging_database: str | None = None,
        clickhouse_conn_id: str = CLICKHOUSE_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.periods = periods
        self.database = database
        self.cluster = cluster
        self.staging_database = staging_database
        self.clickhouse_conn_id = clickhouse_conn_id

    def request(self) -> LedgerRequest:
        """Return the request for the table's periods."""
        from airflow_provider_chs3.core.model.period import parse_periods
        from airflow_provider_chs3.core.periods.status import LedgerRequest

        return LedgerRequest(
            **self.of_table(self.hook().options),
            staging_database=self.staging_database,
            periods=parse_periods(self.periods) if self.periods else None,
        )

    def _request_of_named(self) -> LedgerRequest:
        """Return the request for periods that must be named.

        Raises:
            ConfigurationError: If none are.
        """
        if not self.periods:
            raise ConfigurationError(NO_PERIODS)
        return self.request()


@takes()
class ListLedgerOperator(LedgerOperator):
    """List a table's published periods, with the state of each on its nodes. Objects in S3 are not checked.

    Without `periods` it lists all periods, and partitions in no ledger.

    Returns:
        For each period its state, rows, bytes, objects, time of publishing and speed, as JSON-safe values.
    """

    def listed(self) -> list[PeriodInLedger]:
        """Return the periods, as objects."""
        from airflow_provider_chs3.core.periods.status import list_ledger

        with airflow_errors():
            return self.runner().run(list_ledger(self.request()))

    def listed_objects(self) -> list[LoadedObject]:
        """Return the objects that the periods were loaded from, also those that later loads have replaced."""
        from airflow_provider_chs3.core.periods.objects import list_objects

        with airflow_errors():
            return self.runner().run(list_objects(self.request()))

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """List the periods."""
        listed = self.listed()
        for period in listed:
            self.log.info("%s %s: %s rows", period.period or period.partition_id, period.state, f"{period.rows:,}")
        return [period.as_json() for period in listed]


@takes()
class ForgetPeriodsOperator(LedgerOperator):
    """Remove periods from the ledger. Their rows stay in the table, but loads treat them as unknown.

    A load of such a period stops, as with any rows that no known load has written, unless the partition is empty or
    `policies={'replace_unknown': True}` is given. `AdoptPeriodsOperator` adds the period to the ledger again. `periods`
    is required.

    Returns:
        For each period whether it was in a ledger, and the rows that stay, as JSON-safe values.
    """

    def forgotten(self) -> list[ForgottenPeriod]:
        """Forget the periods, and return them as objects.

        Raises:
            AirflowFailException: If no periods are given, or a retry would end the same way.
        """
        from airflow_provider_chs3.core.periods.forget import forget_periods

        with airflow_errors():
            if not self.periods:
                raise ConfigurationError("No periods are given: name those to forget, such as periods=['2026-10'].")
            return self.runner().run(forget_periods(self.request()))

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Forget the periods."""
        forgotten = self.forgotten()
        for period in forgotten:
            self.log.info(
                "%s %s", period.period, f"forgotten; {period.rows:,} rows stay" if period.was_known else "was not known"
            )
        return [period.as_json() for period in forgotten]


@takes(PROVE)
class AdoptPeriodsOperator(ComparedPeriodsOperator):
    """Record periods that were loaded by other means as published, if they hold their objects' rows.

    For each period the operator counts the rows of its objects, and those of its partition on every node. If the counts
    match, it records the period as published, so that the next load of the same objects finds it unchanged; otherwise
    it refuses the period. Values are compared only with `prove`. Without `definition` it records periods as loaded
    without arguments: a load that has some finds the definition changed, and loads.

    Returns:
        For each period whether it was adopted, with the rows by node, as JSON-safe values. If a period was refused, the
        task fails after all have been tried.
    """

    def __init__(self, *, prove: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.prove = prove

    def adopted(self) -> list[AdoptedPeriod]:
        """Adopt the periods that hold their objects' rows, and return all as objects.

        Raises:
            AirflowFailException: If no periods are given, or a retry would end the same way.
        """
        from airflow_provider_chs3.core.periods.adopt import adopt_periods

        with airflow_errors():
            listing = self.listing()
            runner = self.runner(listing)
            return runner.run(adopt_periods(self._requests(runner, listing), proves=self.prove))

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Adopt the periods.

        Raises:
            AirflowFailException: If a period was refused.
        """
        adopted = self.adopted()
        if refused := [str(period) for period in adopted if period.status == "refused"]:
            raise AirflowFailException("\n".join(refused))
        return [period.as_json() for period in adopted]


@takes(*OF_CLEANING)
class CleanStagingOperator(BaseOperator):
    """Drop staging tables that dead attempts left on any node, and end their queries, such as in a nightly DAG.

    A load removes the staging tables of earlier attempts at its period; this operator is for periods that are not
    loaded again. It drops only tables with the name of a staging table, and never the ledger.

    Returns:
        For each table its name, age, rows by node, bytes and running queries, as JSON-safe values.
    """

    template_fields: Sequence[str] = templated(OF_CLEANING)
    ui_color = LedgerOperator.ui_color

    def __init__(
        self,
        *,
        database: str | None = None,
        cluster: str | None = None,
        older_than_seconds: float | str = 24 * 60 * 60,
        dry_run_only: bool = False,
        clickhouse_conn_id: str = CLICKHOUSE_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.database = database
        self.cluster = cluster
        self.older_than_seconds = older_than_seconds
        self.dry_run_only = dry_run_only
        self.clickhouse_conn_id = clickhouse_conn_id

    def cleaned(self) -> list[Orphan]:
        """Clean, and return the tables found."""
        from airflow_provider_chs3.client.runner import Runner
        from airflow_provider_chs3.core.load.cleanup_on_request import CleanRequest, clean_staging
        from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

        with airflow_errors():
            hook = ClickHouseHook(clickhouse_conn_id=self.clickhouse_conn_id)
            request = CleanRequest(
                database=self.database or hook.options.database,
                cluster=self.cluster or None,
                default_cluster=hook.options.cluster,
                older_than_seconds=OLDER_THAN_SECONDS.checked(self.older_than_seconds),
                is_dry_run=self.dry_run_only,
            )
            return Runner(session=hook, log=self.log).run(clean_staging(request))

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Clean up staging."""
        return [staging.as_json() for staging in self.cleaned()]
