"""Compare the periods of a table with their objects, whoever wrote them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.arguments.load_arguments import (
    OF_ADOPTION,
    check_definition,
    templated,
)
from airflow_provider_chs3.core.arguments.proof_arguments import OF_PROOF, SAMPLE
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.airflow_errors import airflow_errors
from airflow_provider_chs3.operators._support.declared import takes
from airflow_provider_chs3.operators.period import PeriodOperator
from airflow_provider_chs3.plugin.constants import PROOF_KEY

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_chs3.client.listing import Listing
    from airflow_provider_chs3.client.runner import Runner
    from airflow_provider_chs3.core.load.load_request import LoadRequest
    from airflow_provider_chs3.core.model.period import Period
    from airflow_provider_chs3.core.periods.proved_period import ProvedPeriod


#: The most periods whose proof the page gets, the newest.
_MOST_SHOWN = 1_000


@takes(*OF_ADOPTION)
class ComparedPeriodsOperator(PeriodOperator):
    """The base of operators that compare periods of a table with their objects."""

    template_fields: Sequence[str] = (*PeriodOperator.template_fields, *templated(OF_ADOPTION))
    file_fields: ClassVar[Sequence[str]] = ("definition",)
    ui_color = "#e8e4d8"

    def __init__(
        self,
        *,
        periods: Sequence[str] | str | None = None,
        all_periods: bool = False,
        definition: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.periods = periods
        self.all_periods = all_periods
        self.definition = definition
        check_definition(definition)

    def _requests(self, runner: Runner, listing: Listing) -> list[LoadRequest]:
        """Return the load of each period.

        Raises:
            ConfigurationError: If no periods are given.
        """
        from airflow_provider_chs3.core.load.load_request import LoadRequest
        from airflow_provider_chs3.core.model.period import parse_periods
        from airflow_provider_chs3.operators._support.load_request import what_is_loaded

        if self.periods:
            periods: Sequence[Period] = parse_periods(self.periods)
        elif self.all_periods:
            periods = sorted(runner.run(self.source(listing).summarize_periods(self.grain())))
        else:
            raise ConfigurationError("No periods are given: name them with periods=…, or give all_periods=True.")
        loaded = what_is_loaded(self, listing, self.definition or {})
        return [LoadRequest(**loaded, period=period) for period in periods]


@takes(*OF_PROOF)
class ProvePeriodsOperator(ComparedPeriodsOperator):
    """Prove that a table holds exactly the rows of its objects, whoever wrote them: S3Queue, dbt, a cron job, or loads.

    The operator reads the objects again, as a load with these arguments would, and the periods' rows, and compares
    numbers and hashes of rows, in any order. It writes nothing, needs no ledger, and reads both once; hashing
    costs more than reading. Columns that no file has are left out, unless `definition` names the columns. Without
    `definition`, each period is compared by the load's arguments in the ledger; if no load published it, without
    arguments.

    Returns:
        For each period its `status` (`equal`, `differs`, or `refused` if it could not be compared), `reason`, `rows`,
        `source_rows`, the `columns` and `objects` that differ, the columns `left_out`, and the load's `definition` by
        which it was compared, as JSON-safe values.

    Raises:
        AirflowFailException: If a period differs or could not be compared, unless `fail_on_difference` is false.
    """

    template_fields: Sequence[str] = (*ComparedPeriodsOperator.template_fields, *templated(OF_PROOF))

    def __init__(
        self,
        *,
        object_column: str | None = None,
        sample: int | str | None = None,
        fail_on_difference: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.object_column = object_column
        self.sample = sample
        self.fail_on_difference = fail_on_difference

    def proved(self) -> list[ProvedPeriod]:
        """Compare the periods, and return them as objects.

        Raises:
            AirflowFailException: If no periods are given, or a retry would end the same way.
        """
        from airflow_provider_chs3.core.periods.prove import ProofOptions, prove_periods

        with airflow_errors():
            listing = self.listing()
            runner = self.runner(listing)
            options = ProofOptions(
                object_column=self.object_column or None,
                sample=SAMPLE.checked(self.sample),
                all_periods=not self.periods,
                is_as_recorded=self.definition is None,
            )
            return runner.run(prove_periods(self._requests(runner, listing), options))

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Compare the periods."""
        proved = self.proved()
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
