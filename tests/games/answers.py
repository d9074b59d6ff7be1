"""The answers of plan, ledger and page about the periods of a game, and how they differ from a load's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_provider_chs3.core.arguments.merge_arguments import Thresholds
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.operators.ledger import ListLedgerOperator
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.operators.versions import ListVersionsOperator
from airflow_provider_chs3.plugin.cache import carry_out
from airflow_provider_chs3.plugin.observation.period_state import PeriodState
from airflow_provider_chs3.plugin.observation.periods import overview
from airflow_provider_chs3.plugin.observation.periods_facts import look_at_all_tables, with_contents
from airflow_provider_chs3.plugin.observation.running_inserts import TasksOfLoads
from tests.games.model import ModelPeriod, Rows
from tests.games.tables import Tables
from tests.support.arguments import grouped

POLICIES = {"max_shrink_fraction": 1, "reload_whole_table": True}
DEFINITION = {"files": {"file_format": "CSVWithNames"}, "policies": POLICIES}


class Answers:
    """Asks about the periods of a game."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._of_versions = dict[tuple[str, str], Rows]()
        #: Period and table of a version → `Tables.structure` when it was kept.
        self.structures = dict[tuple[str, str], str]()
        self.where = {
            "database": tables.lake.database,
            "table": tables.table,
            "cluster": tables.lake.cluster.name,
        }

    @property
    def key(self) -> str:
        """The template of the objects' keys."""
        return f"{self._tables.prefix}/{self._tables.span.folder}/"

    def differences(self) -> Iterator[str]:
        """Give what differs from the model: rows of table, view and versions, and what anybody says."""
        tables = self._tables
        content, of_view = tables.content(), tables.content_of_view()
        for period, model in tables.periods.items():
            yield from _rows(f"{period}", content[period], model.content)
            yield from _rows(f"{period} of the view", of_view[period], model.of_view)
        yield from self._of_kept()
        yield from self._said()

    def _of_kept(self) -> Iterator[str]:
        for each in ListVersionsOperator(task_id="versions", **self.where).execute({}):
            period = each["period"]
            if each["why_broken"]:
                yield f"version {each['attempt']} of {period} is broken: {each['why_broken']}"
                continue
            rows = self._tables.content_of_version(each["table"], period)
            self.structures.setdefault((period, each["table"]), self._tables.structure)
            known = self._of_versions.setdefault((period, each["table"]), rows)
            model = self._tables.periods[period]
            # A load that was killed may have kept what it was to replace.
            if rows != known or rows not in (*model.history, model.content):
                yield f"version {each['attempt']} of {period} has {len(rows)} rows that the table never held"
            if each["rows"] != rows.total():
                yield f"version {each['attempt']} of {period} is said to have {each['rows']} of {rows.total()} rows"

    def _said(self) -> Iterator[str]:
        plan, ledger, page = self._plan(), self.listed(), self._page()
        for period, model in self._tables.periods.items():
            may = model.load_does()
            said = plan.get(period, "unchanged")
            if said not in may and not (said == "unchanged" and may & {"skipped", "held"}):
                yield f"the plan says of {period}: {said}, and a load may: {', '.join(sorted(may))}"
            if not model.is_in_doubt:
                wanted = model.is_as_published and not model.has_hold
                is_said = period in ledger and ledger[period]["is_as_published"]
                if is_said is not wanted and model.published is not None:
                    yield f"the ledger says of {period}: {'not ' * wanted}as published"
                # The page knows no table that nothing was ever loaded into.
                if page is not None:
                    yield from _on_page(period, page.get(period, PeriodState.NEVER_LOADED), model)

    def _plan(self) -> dict[str, str]:
        lake = self._tables.lake
        planner = PlanLoadsOperator(
            **grouped(
                task_id="plan",
                periods=list(self._tables.periods),
                bucket=lake.bucket,
                key=self.key,
                definition=DEFINITION,
                **self.where,
            )
        )
        return {
            str(each.period): "error" if each.is_blocked else "published" if each.is_to_load else "unchanged"
            for each in planner.planned({})
        }

    def listed(self) -> dict[str, Any]:
        """List the ledger, by period."""
        listed = ListLedgerOperator(task_id="ledger", **self.where).execute({})
        return {each["period"]: each for each in listed if each["period"]}

    def _page(self) -> dict[str, Any] | None:
        hook = ClickHouseHook("chs3_default")
        seen = carry_out(look_at_all_tables(self._tables.lake.cluster.name), hook)
        name = TableName(self._tables.lake.database, self._tables.table)
        for _ in range(2):
            tables = overview(seen, tasks=TasksOfLoads(at_work={}, failed=()), thresholds=Thresholds(), only=[name])
            if name not in tables:
                return None
            states = {period.period: period.state for period in tables[name].periods}
            if PeriodState.CHANGED not in states.values():
                return states
            seen = carry_out(with_contents(seen, [name]), hook)
        return states


def _rows(of: str, found: Any, wanted: Any) -> Iterator[str]:
    if found != wanted:
        missing, extra = wanted - found, found - wanted
        yield (
            f"{of}: {missing.total()} rows are missing, such as {next(iter(missing), '')}; {extra.total()} are too "
            f"many, such as {next(iter(extra), '')}"
        )


def _on_page(period: str, state: PeriodState, model: ModelPeriod) -> Iterator[str]:
    is_changed = model.is_of_others and not model.is_pinned and not model.has_hold
    if (state is PeriodState.CHANGED) is not is_changed:
        yield f"the page says of {period}: {state}, and it is {'not ' * (not is_changed)}changed"
    if (state is PeriodState.PINNED) is not model.is_pinned:
        yield f"the page says of {period}: {state}, and it is {'not ' * (not model.is_pinned)}pinned"
