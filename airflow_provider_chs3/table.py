"""A table, and everything people do with its periods: operators, the shell and scripts call this."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.client.connection import check_settings, parse_node_specs
from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.arguments.check_arguments import Checks
from airflow_provider_chs3.core.arguments.load_arguments import CREATE_TABLE, VIEWS, Tuning
from airflow_provider_chs3.core.arguments.proof_arguments import SAMPLE
from airflow_provider_chs3.core.files.table_suggestion import NewTable, NewTableRequest, suggest_table
from airflow_provider_chs3.core.load.decision import published_periods
from airflow_provider_chs3.core.load.end_on_request import CleanRequest, Orphan, clean_staging
from airflow_provider_chs3.core.load.load_request import LoadRequest, parsed_definition
from airflow_provider_chs3.core.load.protocol import load_periods
from airflow_provider_chs3.core.load.retry_policy import Reload
from airflow_provider_chs3.core.load.staging_tables import make_nonce
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Grain, Period, parse_periods
from airflow_provider_chs3.core.periods.adopt import AdoptedPeriod, adopt_periods
from airflow_provider_chs3.core.periods.discard import DiscardedPeriod, discard_periods
from airflow_provider_chs3.core.periods.following import find_views, follow, plan_with_views
from airflow_provider_chs3.core.periods.forget import ForgottenPeriod, forget_periods
from airflow_provider_chs3.core.periods.objects import LoadedObject, list_objects
from airflow_provider_chs3.core.periods.plan import (
    PlannedPeriod,
    PlanRequest,
    WantedPeriods,
    compared_by,
    periods_of_other_table,
    plan_loads,
)
from airflow_provider_chs3.core.periods.prove import ProofOptions, prove_periods
from airflow_provider_chs3.core.periods.proved_period import ProvedPeriod
from airflow_provider_chs3.core.periods.restore import (
    ListedVersion,
    RestoredPeriod,
    RestoreRequest,
    list_versions,
    restore_periods,
    unpin_periods,
)
from airflow_provider_chs3.core.periods.status import (
    LedgerRequest,
    PeriodInLedger,
    TableStatus,
    list_ledger,
    look_at_freshness,
)
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.target_checks import find_grain, find_zone
from airflow_provider_chs3.core.target.topology import TableRequest
from airflow_provider_chs3.core.tuning.insert_settings import tunable
from airflow_provider_chs3.core.tuning.resource_share import ShareOptions
from airflow_provider_chs3.exceptions import ConfigurationError

if TYPE_CHECKING:
    from airflow_provider_chs3.client.listing import Listing
    from airflow_provider_chs3.client.runner import ProgressLog
    from airflow_provider_chs3.client.session import Session
    from airflow_provider_chs3.core.files.source import Source
    from airflow_provider_chs3.core.load.decision import LoadResult
    from airflow_provider_chs3.core.model.freshness import FreshBy
    from airflow_provider_chs3.load import Load
    from airflow_provider_chs3.sources.storage import Storage

#: Periods as people name them: `2026-10`, several with commas, or a list.
Periods = str | Sequence[str]
_LOG = logging.getLogger(__name__)


class Table:
    """A table of ClickHouse, whose periods loads publish. It needs no DAG, task or scheduler.

    Args:
        session: The connection: `airflow_provider_chs3.hooks.clickhouse.ClickHouseHook`, or a
            `airflow_provider_chs3.client.session.Session`, which knows no Airflow.
        name: The table, with its database or without.
        database: Its database. Default: the one in `name`, else the connection's.
        cluster: The cluster of its nodes. Default: the Distributed table's, else the connection's, else none.
        staging_database: Database of staging and ledger. Default: the table's.
        log: Takes lines of progress. Default: the logger of this module.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        *,
        database: str | None = None,
        cluster: str | None = None,
        staging_database: str | None = None,
        log: ProgressLog = _LOG,
    ) -> None:
        self.session = session
        self.name = TableName.of(name, database, default_database=session.options.database)
        self.cluster = cluster or None
        self.staging_database = staging_database
        self.log = log

    @classmethod
    def of(cls, session: Session, load: Load, *, log: ProgressLog = _LOG) -> Table:
        """Return the table of a load.

        Args:
            session: As above.
            load: The load.
            log: As above.
        """
        names = {"database": load.database, "cluster": load.cluster, "staging_database": load.staging_database}
        return cls(session, load.table, **names, log=log)

    def load(self, load: Load, periods: Periods, *, parallel_loads: int | None = None) -> list[LoadResult]:
        """Make periods hold exactly the rows of their objects; what is as published is left alone.

        Args:
            load: The load.
            periods: The periods.
            parallel_loads: How many loads share the servers. Default: as many as keep all cores busy.

        Returns:
            The result of each period, in order, then those of the tables of views that follow.

        Raises:
            Chs3Error: If a period could not be loaded, once all others are.
        """
        asked, listing = parse_periods(periods), load.store.listing()
        request = self.request(load, asked[0], listing=listing, parallel_loads=parallel_loads)
        runner = self._runner(listing)
        views = runner.run(find_views(request, asked)) if request.follows_views and not load.is_by_arrival else ()
        outcome = runner.run(load_periods(request, asked))
        results = [outcome.results[period] for period in asked if period in outcome.results]
        published = published_periods(results)
        if request.follows_views and load.is_by_arrival and published:
            # The periods that an arrival changes are known once it is loaded.
            views = runner.run(find_views(request, [result.period for result in published]))
        followed = runner.run(follow(request, views, published, begin=lambda request, periods: None))
        if error := followed.error or outcome.error:
            raise error
        return [*results, *followed.results.values()]

    def plan(
        self,
        load: Load,
        periods: WantedPeriods | Periods | None = None,
        *,
        compares_definition: bool = True,
        leave_out_empty: bool = False,
        reload: Reload | None = None,
        writes: bool = False,
    ) -> list[PlannedPeriod]:
        """Return which periods would be loaded, and why.

        Args:
            load: The load.
            periods: The periods, such as `["2026-10"]`, or what names them once the length of the table's periods is
                known. Default: all that have objects.
            compares_definition: Whether another definition of the load is a reason to load. Default: True.
            leave_out_empty: Whether to leave out periods that have no objects and were never loaded. Default: False.
            reload: The reload that a run asks for. Default: none.
            writes: Whether to create a missing table, if `load` may, and to record the look. Default: False.

        Raises:
            Chs3Error: If the objects or the table cannot be compared.
        """
        loaded = self._what_is_loaded(load, self.source(load, listing := load.store.listing()))
        request = PlanRequest(
            **self._names(),
            source=loaded["source"],
            periods=_wanted(periods),
            leave_out_empty=leave_out_empty,
            reload=reload,
            new_table=_new_table(load, loaded),
            writes=writes,
            fresh_by=self.due(load),
            now=loaded["now"],
            **compared_by(loaded) if compares_definition else {},
        )

        def steps() -> Steps[list[PlannedPeriod]]:
            planned = yield from plan_loads(request)
            if VIEWS.checked(load.views) == "warn" or load.is_by_arrival:
                return planned
            if not planned and reload:
                planned = yield from periods_of_other_table(replace(request, periods=reload.periods), reload)
            return (yield from plan_with_views(planned, lambda period: LoadRequest(**loaded, period=period), reload))

        return self._runner(listing).run(steps())

    def prove(
        self,
        load: Load,
        periods: Periods | None = None,
        *,
        object_column: str | None = None,
        sample: int | None = None,
        is_as_recorded: bool = False,
    ) -> list[ProvedPeriod]:
        """Compare periods with their objects, value by value, whoever wrote them; nothing is written.

        Args:
            load: The load.
            periods: The periods. Default: all.
            object_column: The column that holds the object of each row. Default: none.
            sample: The most objects of a period to read; needs `object_column`. Default: all.
            is_as_recorded: Whether to read the objects as the ledger records that each load did. Default: False.

        Raises:
            Chs3Error: If the periods cannot be read.
        """
        options = ProofOptions(
            object_column=object_column,
            sample=SAMPLE.checked(sample),
            all_periods=periods is None,
            is_as_recorded=is_as_recorded,
        )
        listing = load.store.listing()
        return self._runner(listing).run(prove_periods(self._requests(load, periods, listing), options))

    def adopt(self, load: Load, periods: Periods | None = None, *, proves: bool = False) -> list[AdoptedPeriod]:
        """Record periods that were loaded by other means as published, if they hold their objects' rows.

        Args:
            load: The load that is to find them unchanged.
            periods: The periods. Default: all that have objects; loads by arrival take no others.
            proves: Whether to compare the values, too. Default: False.

        Raises:
            Chs3Error: If the periods cannot be compared.
        """
        if load.is_by_arrival and periods is not None:
            raise ConfigurationError("A table that is loaded by arrival is adopted as a whole: name no periods.")
        listing = load.store.listing()
        return self._runner(listing).run(adopt_periods(self._requests(load, periods, listing), proves=proves))

    def approve(self, load: Load, periods: Periods) -> list[LoadResult]:
        """Publish the rows of periods that loads hold.

        Args:
            load: The load; its objects count, as its record has the rest. An arrival needs all of it.
            periods: The periods, or the arrivals.

        Raises:
            Chs3Error: If objects or table have changed since the rows were checked.
        """
        asked, listing = _named(periods), load.store.listing()
        reload = Reload(target=self.name, periods=asked, approve=True)
        loaded = self._what_is_loaded(load, self.source(load, listing), has_checks=bool(load.checks))
        outcome = self._runner(listing).run(load_periods(LoadRequest(**loaded, period=asked[0], reload=reload), asked))
        if outcome.error:
            raise outcome.error
        return [outcome.results[period] for period in asked]

    def list_periods(self, periods: Periods = ()) -> list[PeriodInLedger]:
        """Return the published periods with the state of each on its nodes, and partitions in no ledger.

        Args:
            periods: The periods. Default: all.
        """
        return self._runner().run(list_ledger(self._in_ledger(parse_periods(periods))))

    def status(self, load: Load | None = None) -> TableStatus:
        """Return whether all periods that are due are there, and when the next one is due.

        Args:
            load: The load, whose `fresh_by` says when. Default: as the table's newest load said.
        """
        steps = look_at_freshness(self._in_ledger(()), self.due(load) if load else None, datetime.now(UTC))
        return self._runner().run(steps)

    def list_objects(self, periods: Periods = ()) -> Sequence[LoadedObject]:
        """Return the objects that periods were loaded from, also those that later loads have replaced.

        Args:
            periods: The periods. Default: all.
        """
        return self._runner().run(list_objects(self._in_ledger(parse_periods(periods))))

    def list_versions(self, periods: Periods = ()) -> Sequence[ListedVersion]:
        """Return the earlier versions that loads have kept of periods.

        Args:
            periods: The periods. Default: all.
        """
        return self._runner().run(list_versions(self._in_ledger(parse_periods(periods))))

    def forget(self, periods: Periods) -> Sequence[ForgottenPeriod]:
        """Remove periods from the ledger; their rows stay, and loads treat them as unknown.

        Args:
            periods: The periods.
        """
        return self._runner().run(forget_periods(self._in_ledger(_named(periods))))

    def discard(self, periods: Periods) -> Sequence[DiscardedPeriod]:
        """Drop the rows of periods that loads hold; the next load loads these.

        Args:
            periods: The periods.
        """
        return self._runner().run(discard_periods(self._in_ledger(_named(periods))))

    def restore(
        self, periods: Periods, *, by: str, version: str | None = None, replaces_changed: bool = False
    ) -> Sequence[RestoredPeriod]:
        """Publish an earlier version of periods, and pin them: loads leave them until `unpin`.

        Args:
            periods: The periods.
            by: Who asks, for the records.
            version: The attempt that had published the rows. Default: the newest that is not what the table holds.
            replaces_changed: Whether to restore periods that somebody changed. Default: False.
        """
        asked, now = self._in_ledger(_named(periods)), datetime.now(UTC)
        request = RestoreRequest(
            **vars(asked), version=version, by=by, nonce=make_nonce(now), now=now, replaces_changed=replaces_changed
        )
        return self._runner().run(restore_periods(request))

    def unpin(self, periods: Periods) -> Sequence[RestoredPeriod]:
        """Let loads replace restored periods again.

        Args:
            periods: The periods.
        """
        return self._runner().run(unpin_periods(self._in_ledger(_named(periods))))

    def suggest(self, load: Load, period: str) -> NewTable:
        """Return CREATE TABLE for the files of a period, with the reason of each choice; nothing is written.

        Args:
            load: The load.
            period: The period whose files define the columns.
        """
        loaded = self._what_is_loaded(load, self.source(load, listing := load.store.listing()))
        return self._runner(listing).run(suggest_table(NewTableRequest.of(loaded), Period.parse(period)))

    def grain(self, load: Load | None = None, *, may_lack: bool = False) -> Grain:
        """Return how long the periods are that the table is partitioned by, or those of a load by arrival.

        Args:
            load: The load. Default: one by the table's periods.
            may_lack: Whether the table may be missing; then it is a month. Default: False.

        Raises:
            PreflightError: If it is partitioned by something else.
        """
        if load and load.is_by_arrival:
            return self.source(load, load.store.listing()).arrival_grain
        return self._runner().run(find_grain(self._request(), may_lack=may_lack))[0]

    def due(self, load: Load) -> FreshBy | None:
        """Return when the periods of a load are due, else in the zone of the partition key; None if it does not say."""
        if not load.fresh_by or load.timezone:
            return load.due
        return replace(load, timezone=self._runner().run(find_zone(self._request()))).due

    def source(self, load: Load, listing: Listing) -> Source:
        """Return where the objects are, with the credentials that the servers read them with."""
        return self.store(load).source(listing)

    def store(self, load: Load) -> Storage:
        """Return the place of a load's objects, beside the table's servers."""
        return load.store.beside(lambda: (self.session.options.namespace, self.located()))

    def located(self) -> dict[str, Any]:
        """Return what requests say about the table: its name and its cluster."""
        return {"target": self.name, "cluster": self.cluster, "default_cluster": self.session.options.cluster}

    def request(
        self,
        load: Load,
        period: Period,
        *,
        listing: Listing,
        parallel_loads: int | None = None,
        reload: Reload | None = None,
        **of_task: Any,
    ) -> LoadRequest:
        """Return one attempt at a period; other periods may share it.

        Args:
            load: The load.
            period: The period.
            listing: What `load.store.listing()` returned.
            parallel_loads: As in `load`.
            reload: The reload that a run asks for. Default: none.
            **of_task: Further fields of `LoadRequest`.
        """
        options, tuning = self.session.options, Tuning.of(load.tuning)
        loaded = self._what_is_loaded(load, self.source(load, listing), has_checks=True)
        loaded["policies"] = loaded["policies"].of_run(reload)
        return LoadRequest(
            **loaded,
            node_specs=parse_node_specs(tuning.node_specs or {}, where="tuning['node_specs']"),
            connection_node_specs=options.node_specs,
            new_table=_new_table(load, loaded),
            period=period,
            share=ShareOptions.merged(tuning, parallel_loads=parallel_loads),
            reload=reload,
            checks=Checks.of(load.checks),
            follows_views=VIEWS.checked(load.views) == "follow",
            fresh_by=self.due(load),
            **of_task,
        )

    def _requests(self, load: Load, periods: Periods | None, listing: Listing) -> list[LoadRequest]:
        """Return the load of each period."""
        source = self.source(load, listing)
        found = self._runner(listing).run(source.summarize_periods(self.grain(load))) if periods is None else ()
        asked = tuple(sorted(found)) if periods is None else _named(periods)
        loaded = self._what_is_loaded(load, source)
        return [LoadRequest(**loaded, period=period) for period in asked]

    def _what_is_loaded(self, load: Load, source: Source, *, has_checks: bool = False) -> dict[str, Any]:
        """Return the fields of a request that say what is read, where it goes, and how."""
        # Plans and proofs do not know the checks that policies are about.
        given = {name: value for name, value in vars(load).items() if has_checks or name != "checks"}
        how, options = parsed_definition(given), self.session.options
        settings = check_settings(load.given_settings, where="settings")
        return {
            **self._names(),
            "source": source.leaving_out() if how["policies"].on_other_periods == "leave_out" else source,
            "nonce": make_nonce(datetime.now(UTC)),
            "now": datetime.now(UTC),
            **how,
            "settings": {**tunable(options.settings, source.kind), **settings},
        }

    def _names(self) -> dict[str, Any]:
        return vars(self._request())

    def _request(self) -> TableRequest:
        return TableRequest(**self.located(), staging_database=self.staging_database)

    def _in_ledger(self, periods: tuple[Period, ...]) -> LedgerRequest:
        return LedgerRequest(**self._names(), periods=periods or None)

    def _runner(self, listing: Listing | None = None) -> Runner:
        return Runner(session=self.session, listing=listing, log=self.log)


def clean(
    session: Session,
    *,
    database: str | None = None,
    cluster: str | None = None,
    older_than_seconds: float = 24 * 60 * 60,
    is_dry_run: bool = False,
    log: ProgressLog = _LOG,
) -> list[Orphan]:
    """Drop the staging tables that dead loads left in a database, and end their queries.

    Args:
        session: The connection.
        database: The database. Default: the connection's.
        cluster: The cluster. Default: the connection's.
        older_than_seconds: Their minimum age, in seconds: pass more than the longest load takes. Default: a day.
        is_dry_run: Whether to drop none. Default: False.
        log: Takes lines of progress. Default: the logger of this module.
    """
    request = CleanRequest(
        database=database or session.options.database,
        cluster=cluster or None,
        default_cluster=session.options.cluster,
        older_than_seconds=older_than_seconds,
        is_dry_run=is_dry_run,
    )
    return Runner(session=session, log=log).run(clean_staging(request))


def _wanted(periods: WantedPeriods | Periods | None) -> WantedPeriods:
    """Return periods, or what names them, as a plan takes them."""
    if periods is None:
        return lambda grain: grain
    return periods if callable(periods) else parse_periods(periods)


def _named(periods: Periods) -> tuple[Period, ...]:
    """Return periods that must be named.

    Raises:
        ConfigurationError: If none are.
    """
    if not periods:
        raise ConfigurationError("No periods are named: name them, such as periods=['2026-10'].")
    return parse_periods(periods)


def _new_table(load: Load, loaded: Mapping[str, Any]) -> NewTableRequest | None:
    """Return the table that is created if it is missing; None if none is."""
    return None if CREATE_TABLE.checked(load.create_table) == "never" else NewTableRequest.of(loaded)
