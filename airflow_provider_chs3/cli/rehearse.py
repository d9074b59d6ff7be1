"""`rehearse`: prove on the user's own servers that loads are exact, with small objects and tables."""

from __future__ import annotations

import itertools
import logging
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from airflow_provider_chs3.cli.progress import Lines
from airflow_provider_chs3.cli.rehearsed_objects import CLEAN, RehearsedObjects, stage
from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.arguments.merge_arguments import Reactions, Thresholds
from airflow_provider_chs3.core.doctor import rehearsal_tables as scratch
from airflow_provider_chs3.core.doctor.rehearsal_tables import (
    PERIOD,
    Cleaned,
    Scenario,
    ScenarioResult,
    Where,
    clean_database,
)
from airflow_provider_chs3.core.load.protocol import LoadsOutcome, load_periods
from airflow_provider_chs3.core.model.error_codes import S3_ERROR, sentence, with_hint
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.steps.operations import AnyStep, Insert, Log, Steps
from airflow_provider_chs3.core.target.table_facts import NAME_PREFIX
from airflow_provider_chs3.exceptions import (
    Chs3Error,
    ClickHouseServerError,
    SupersededError,
    TargetChangedError,
    TerminalError,
    TransientError,
    VerificationError,
)
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook, PooledClickHouseHook
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.sources.storage import Storage
from airflow_provider_chs3.table import Table
from airflow_provider_chs3.triggers.merge_health import Merges, MergeWait

_LOG = logging.getLogger(__name__)

#: The parts are small: healthy servers merge them in seconds.
_MERGES_TIMEOUT_SECONDS = 120
#: Rows per second, so that an insert takes seconds and can be abandoned halfway.
_SLOWLY = {"max_execution_speed": 50, "timeout_before_checking_execution_speed": 0}


class MismatchError(Chs3Error):
    """The table does not hold the rows of the objects."""


#: The errors that prove a load inexact; all others say nothing about that.
_DISPROOFS = (MismatchError, VerificationError, TargetChangedError)


class Rehearsal:
    """A rehearsal, which loads small objects into a separate table and compares every value."""

    def __init__(
        self,
        hook: ClickHouseHook,
        *,
        cluster: str | None,
        store_of: Callable[[str], Storage],
        database: str,
        prefix: str,
        like: TableName | None,
        staging_database: str | None,
        progress: Lines,
        warn: Callable[[str], object],
    ) -> None:
        self.staging_database = staging_database
        self.progress = progress
        self.warn = warn
        self.hook = hook
        self.conn_id = str(getattr(hook, hook.conn_name_attr))
        name = f"{NAME_PREFIX}{uuid.uuid4().hex[:8]}"
        self.objects = RehearsedObjects(store_of, prefix=prefix, name=name)
        self.listing = self.objects.listing
        self.runner = Runner(session=self.hook, listing=self.listing, log=_LOG)
        self.where = Where(
            target=TableName(database, name),
            cluster=cluster,
            default_cluster=self.hook.options.cluster,
            like=like,
        )
        self._versions = itertools.count(1)
        self.nodes: tuple[Node, ...] = ()

    def play(self) -> ScenarioResult:
        """Run all scenarios, up to the first that fails."""
        self.objects.check_unused()
        scenes: list[Scenario] = []
        with stage(self.runner, self.where, self.objects, warn=self.warn) as self.nodes:
            versions, engine = self.runner.run(scratch.look_at_servers(self.where, self.nodes))
            played = ScenarioResult(
                versions, len(self.nodes), len({node.shard_num for node in self.nodes}), engine, scenes
            )
            self.progress.tell(played.header)
            plays = self._plays()
            for name, play in plays.items():
                begun = Log(name=name, done=len(scenes), total=len(plays), unit="scenarios")
                self.progress.log.info("%s", begun)
                scenes.append(self._played(name, play))
                self.progress.tell(str(scenes[-1]))
                if not scenes[-1].is_exact:
                    return played
        if remembered := self.runner.run(scratch.remember_passed(self.where, self.staging_database)):
            self.progress.tell(
                f"{remembered} records the result: {self.where.like} may be loaded until ClickHouse's version, "
                "the engine or the storage policy change."
            )
        return played

    def clean(self) -> list[str]:
        """Remove the tables, staging, records and objects of killed rehearsals, and return the names of the tables."""
        cleaned: Cleaned = self.runner.run(clean_database(self.where))
        self.objects.delete_left()
        if cleaned.left:
            raise TransientError(f"{cleaned.left}; the other nodes are clean: {CLEAN}.")
        return list(cleaned.tables)

    def _plays(self) -> dict[str, Callable[[], str]]:
        def with_more_files() -> str:
            for _ in range(len(self.nodes) + 1):
                self.objects.add()
            return self._load()

        def changing(play: Callable[[], str]) -> Callable[[], str]:
            def with_other_objects() -> str:
                self.objects.write(0, version=next(self._versions))
                return play()

            return with_other_objects

        return {
            "a first load": with_more_files,
            "the same load again": lambda: self._load(status="unchanged"),
            "files that arrive late": with_more_files,
            "a file that is overwritten": changing(self._load),
            "a file that is deleted": self._load_without_a_file,
            "a worker that dies during the insert": changing(lambda: self._die(_is_insert)),
            "a worker that dies before it publishes": changing(lambda: self._die(_is("Record intents"))),
            "a worker that dies while it publishes": changing(lambda: self._die(_is(f"Record {PERIOD} as published"))),
            "an insert that somebody kills": changing(lambda: self._die(_is_insert, kills=True)),
            "a new connection for each statement": changing(self._load_over_new_connections),
            "two loads at once": changing(self._load_twice),
            "the wait for merges": self._wait_for_merges,
            "unchanged after all of this": lambda: self._load(status="unchanged"),
        }

    def _played(self, name: str, play: Callable[[], str]) -> Scenario:
        began = time.monotonic()
        try:
            outcome, is_exact = f"{play()}, {self._check()} rows as in the objects", True
        except _DISPROOFS as error:
            outcome, is_exact = f"{type(error).__name__}: {error}", False
        except Exception as error:
            raise TerminalError(f"{name} could not be rehearsed: {_describe_error(error)}") from error
        return Scenario(name, round(time.monotonic() - began, 1), is_exact, outcome)

    def _check(self) -> int:
        expected = self.objects.rows
        cluster = self.where.cluster or self.where.default_cluster
        held = [
            (*row[:4], tuple(row[4])) for row in self.hook.query(scratch.read_table(self.where, cluster or None).text)
        ]
        if held != expected:
            lacks, has = (sorted(set(rows) - set(other))[:2] for rows, other in ((expected, held), (held, expected)))
            raise MismatchError(
                f"the table holds {len(held)} rows and the objects {len(expected)}; missing {lacks}, unexpected {has}"
            )
        of_shards: dict[int, set[object]] = {}
        for node, digest in self.runner.run(scratch.digests(self.where, self.nodes)).items():
            of_shards.setdefault(node.shard_num, set()).add(digest)
        if unlike := [number for number, found_there in of_shards.items() if len(found_there) > 1]:
            raise MismatchError(f"replicas of shard {', '.join(map(str, unlike))} hold different rows")
        return len(held)

    def _steps(self, **options: Any) -> Steps[LoadsOutcome]:
        load = Load(
            table=self.where.target.table,
            database=self.where.target.database,
            cluster=self.where.cluster,
            objects=self.objects.store,
            files={"file_format": "JSONEachRow"},
            policies={"max_shrink_fraction": 1},
            **options,
        )
        request = Table.of(self.hook, load).request(load, PERIOD, listing=self.listing)
        return load_periods(request, [PERIOD])

    def _load(self, *, status: str = "published") -> str:
        result = self.runner.run(self._steps()).unwrap()
        if result.status != status:
            raise MismatchError(f"the load was {result.status} ({result.reason}), not {status}")
        return result.status

    def _load_without_a_file(self) -> str:
        self.objects.delete_one()
        return self._load()

    def _load_over_new_connections(self) -> str:
        """Behind a load balancer, each statement then begins at another server."""
        hook = PooledClickHouseHook(clickhouse_conn_id=self.conn_id)
        # It keeps no connection any more.
        hook.close()
        return str(Runner(session=hook, listing=self.listing, log=_LOG).run(self._steps()).unwrap().status)

    def _die(self, is_last: Callable[[AnyStep], bool], *, kills: bool = False) -> str:
        """Run a load up to a step, as if its worker died there, and load again as a retry does."""
        steps = self._steps(settings=_SLOWLY)
        outcome: Any = None
        while not is_last(step := steps.send(outcome)):
            outcome = self.runner.perform(step)
        if _is_insert(step):
            threading.Thread(target=_perform_quietly, args=(self.runner.perform, step), daemon=True).start()
            time.sleep(0.3)
            if kills:
                self.hook.cancel()
        # Without clean-up, as in a killed process.
        steps.close()
        return self._load()

    def _load_twice(self) -> str:
        with ThreadPoolExecutor(max_workers=2) as pool:
            running = [pool.submit(self._load_beside_another) for _ in range(2)]
        statuses = sorted(load.result() for load in running)
        if "published" not in statuses:
            raise MismatchError(f"neither load published: {', '.join(statuses)}")
        return " and ".join(statuses)

    def _load_beside_another(self) -> str:
        try:
            return str(self.runner.run(self._steps()).unwrap().status)
        except SupersededError:
            return "gave way"

    def _wait_for_merges(self) -> str:
        merges = Merges(
            conn_id=self.conn_id,
            table=self.where.target.table,
            database=self.where.target.database,
            cluster=self.where.cluster,
        )
        wait = MergeWait(
            merges=merges,
            periods=(PERIOD,),
            thresholds=Thresholds(),
            reactions=Reactions(),
            poll_interval_seconds=1,
        )
        watch, ends = wait.watch(), time.monotonic() + _MERGES_TIMEOUT_SECONDS
        while True:
            watch.judge(merges.look(self.hook, wait.periods))
            if watch.is_over():
                return "healthy"
            if time.monotonic() > ends:
                raise TransientError(f"merges have not settled in {_MERGES_TIMEOUT_SECONDS} s.")
            time.sleep(1)


def _is_insert(step: AnyStep) -> bool:
    return isinstance(step, Insert)


def _is(beginning: str) -> Callable[[AnyStep], bool]:
    return lambda step: step.name.startswith(beginning)


def _describe_error(error: Exception) -> str:
    """Return an error's message, with what to do about it."""
    text = str(error) or type(error).__name__
    if isinstance(error, ClickHouseServerError) and error.code == S3_ERROR and "NoSuchBucket" in error.message:
        hint = "The servers find no such bucket: with --named-collection, the bucket is the last part of its url."
        return f"{sentence(text)} {hint}"
    return with_hint(error, text) if isinstance(error, Chs3Error) else text


def _perform_quietly(perform: Callable[[AnyStep], Any], step: AnyStep) -> None:
    """Perform an insert that the retry ends, and log its error."""
    try:
        perform(step)
    except Chs3Error as error:
        _LOG.debug("The abandoned insert has ended: %s", error)
