"""Compare the periods of a table with their objects, whoever wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.arguments.load_arguments import OF_ADOPTION
from airflow_provider_chs3.core.arguments.proof_arguments import OF_PROOF, SAMPLE
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.running_task import airflow_errors
from airflow_provider_chs3.operators.period import PeriodOperator
from airflow_provider_chs3.plugin.constants import PROOF_KEY

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.core.periods.proved_period import ProvedPeriod


#: The most periods whose proof the page gets, the newest.
_MOST_SHOWN = 1_000


class ComparedPeriodsOperator(PeriodOperator, takes=OF_ADOPTION):
    """The base of operators that compare periods of a table with their objects."""

    ui_color = "#e8e4d8"
    periods: Sequence[str] | str | None
    all_periods: bool

    def asked_periods(self) -> Sequence[str] | str | None:
        """Return the periods; None for all.

        Raises:
            ConfigurationError: If none are given.
        """
        if not (self.periods or self.all_periods):
            raise ConfigurationError("No periods are named: name them with periods=…, or set all_periods=True.")
        return self.periods or None


class ProvePeriodsOperator(ComparedPeriodsOperator, takes=OF_PROOF):
    """Prove that a table holds exactly the rows of its objects, whoever wrote them: S3Queue, dbt, a cron job, or loads.

    The operator reads the objects again, as a load with these arguments would, and the periods' rows, and compares
    numbers and hashes of rows, in any order. It writes nothing, needs no ledger, and reads both once; hashing
    costs more than reading. Columns that no file has are left out, unless the load names its columns. Without
    `load`, or its arguments one by one, each period is compared by the load's arguments in the ledger; if no load
    published it, without arguments.

    Returns:
        For each period its `status` (`equal`, `differs`, or `refused` if it could not be compared), `reason`, `rows`,
        `source_rows`, the `columns` and `objects` that differ, the columns `left_out`, and the load's `definition` by
        which it was compared, as JSON-safe values.

    Raises:
        AirflowFailException: If a period differs or could not be compared, unless `fail_on_difference` is false.
    """

    object_column: str | None
    sample: int | str | None
    fail_on_difference: bool

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Compare the periods."""
        with airflow_errors():
            proved = self.on_connection().prove(
                self.as_load(),
                self.asked_periods(),
                object_column=self.object_column or None,
                sample=SAMPLE.checked(self.sample),
                is_as_recorded=not self.is_compared,
            )
        if (ti := context.get("ti")) is not None and (seals := self._seals(proved)):
            ti.xcom_push(key=PROOF_KEY, value=seals)
        if self.fail_on_difference and (unlike := [str(period) for period in proved if period.status != "equal"]):
            raise AirflowFailException("\n".join(unlike))
        return [period.as_json() for period in proved]

    def _seals(self, proved: Sequence[ProvedPeriod]) -> dict[str, Any]:
        """Return what the periods page shows of each period, and as of when; nothing if no period was compared."""
        compared = [
            (period, period.as_of) for period in sorted(proved, key=lambda period: period.period) if period.as_of
        ]
        if not compared:
            return {}
        _, first = compared[0]
        return {
            "conn_id": self.clickhouse_conn_id,
            "database": first.database,
            "table": first.table,
            "periods": {
                str(period.period): {
                    "is_equal": period.status == "equal",
                    "found": f"{period.reason}{f', without {names}' if (names := ', '.join(period.left_out)) else ''}",
                    "nodes": as_of.as_json()["nodes"],
                }
                for period, as_of in compared[-_MOST_SHOWN:]
            },
        }
