"""List a table's published periods, and maintain its ledger: adopt, forget, clean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator

from airflow_provider_chs3.core.arguments.load_arguments import OF_CLEANING, OF_LEDGERS, OLDER_THAN_SECONDS
from airflow_provider_chs3.core.arguments.proof_arguments import PROVE
from airflow_provider_chs3.hooks.running_task import airflow_errors
from airflow_provider_chs3.operators._support.declared import Declared
from airflow_provider_chs3.operators._support.on_table import OnTable
from airflow_provider_chs3.operators.prove import ComparedPeriodsOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


class LedgerOperator(OnTable, BaseOperator, takes=OF_LEDGERS):
    """The base of operators on a table's ledgers."""

    ui_color = "#e8e4d8"
    periods: Sequence[str] | str | None
    staging_database: str | None


class ListLedgerOperator(LedgerOperator, takes=()):
    """List a table's published periods, with the state of each on its nodes. Objects in S3 are not checked.

    Without `periods` it lists all periods, and partitions in no ledger.

    Returns:
        For each period its state, rows, bytes, objects, time of publishing and speed, as JSON-safe values.
    """

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """List the periods."""
        with airflow_errors():
            listed = self.on_connection().list_periods(self.periods or ())
        for period in listed:
            self.log.info("%s %s: %s rows", period.period or period.partition_id, period.state, f"{period.rows:,}")
        return [period.as_json() for period in listed]


class ForgetPeriodsOperator(LedgerOperator, takes=()):
    """Remove periods from the ledger. Their rows stay in the table, but loads treat them as unknown.

    A load of such a period stops, as with any rows that no known load has written, unless the partition is empty or
    `policies={'replace_unknown': True}` is set. `AdoptPeriodsOperator` adds the period to the ledger again. `periods`
    is required.

    Returns:
        For each period whether it was in a ledger, and the rows that stay, as JSON-safe values.
    """

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Forget the periods."""
        with airflow_errors():
            forgotten = self.on_connection().forget(self.periods or ())
        for period in forgotten:
            self.log.info(
                "%s %s", period.period, f"forgotten; {period.rows:,} rows stay" if period.was_known else "was not known"
            )
        return [period.as_json() for period in forgotten]


class AdoptPeriodsOperator(ComparedPeriodsOperator, takes=(PROVE,)):
    """Record periods that were loaded by other means as published, if they hold their objects' rows.

    For each period the operator counts the rows of its objects, and those of its partition on every node. If the counts
    match, it records the period as published, so that the next load of the same objects finds it unchanged; otherwise
    it refuses the period. Values are compared only with `prove`. Without `load`, or its arguments one by one,
    it records periods as loaded without any: a load that has some finds the definition changed, and loads.

    Returns:
        For each period whether it was adopted, with the rows by node, as JSON-safe values. If a period was refused, the
        task fails after all have been tried.
    """

    prove: bool

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Adopt the periods.

        Raises:
            AirflowFailException: If no periods are given, or one was refused.
        """
        with airflow_errors():
            adopted = self.on_connection().adopt(self.as_load(), self.asked_periods(), proves=self.prove)
        if refused := [str(period) for period in adopted if period.status == "refused"]:
            raise AirflowFailException("\n".join(refused))
        return [period.as_json() for period in adopted]


class CleanStagingOperator(Declared, BaseOperator, takes=OF_CLEANING):
    """Drop staging tables that dead attempts left on any node, and end their queries, such as in a nightly DAG.

    A load removes the staging tables of earlier attempts at its period; this operator is for periods that are not
    loaded again. It drops only tables with the name of a staging table, and never the ledger.

    Returns:
        For each table its name, age, rows by node, bytes and running queries, as JSON-safe values.
    """

    ui_color = LedgerOperator.ui_color
    database: str | None
    cluster: str | None
    older_than_seconds: float | str
    dry_run_only: bool
    clickhouse_conn_id: str

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Clean up staging."""
        from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
        from airflow_provider_chs3.table import clean

        with airflow_errors():
            cleaned = clean(
                ClickHouseHook(clickhouse_conn_id=self.clickhouse_conn_id),
                database=self.database,
                cluster=self.cluster,
                older_than_seconds=OLDER_THAN_SECONDS.checked(self.older_than_seconds),
                is_dry_run=self.dry_run_only,
                log=self.log,
            )
        return [staging.as_json() for staging in cleaned]
