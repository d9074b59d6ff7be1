"""The steps of a game, each by what people, programs and servers do; the model follows."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.steps.operations import Step
from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.operators.held import ApprovePeriodsOperator, DiscardPeriodsOperator
from airflow_provider_chs3.operators.ledger import AdoptPeriodsOperator, ForgetPeriodsOperator
from airflow_provider_chs3.operators.versions import ListVersionsOperator, RestorePeriodsOperator, UnpinPeriodsOperator
from tests.games.answers import DEFINITION, POLICIES, Answers
from tests.games.model import HeldRows, ModelPeriod
from tests.games.tables import ENGINES, OF_GAMES, Tables
from tests.support.arguments import grouped
from tests.support.killing import Worker, perform, performing

if TYPE_CHECKING:
    from tests.support.lake import Lake

REFUSED = (AirflowFailException, Chs3Error)
_TIMEOUT_SECONDS = 120.0
_SOME_SECONDS = 1.0
_MOST_STEPS_OF_LOAD = 60
_NEVER = {"on_failed_check": "hold", "checks": {"table_checks": {"never": {"check_statement": "count() < 0"}}}}


class Game:
    """A game on one table."""

    def __init__(self, lake: Lake, *, seed: int, log: Path) -> None:
        self.choose, self.lake, self.log = random.Random(seed), lake, log
        span = [*OF_GAMES.values()][seed % len(OF_GAMES)]
        self.tables = Tables(lake, seed, span, ENGINES[seed // len(OF_GAMES) % len(ENGINES)], self.choose)
        self.answers = Answers(self.tables)
        self.names, self.kind = count(), ""
        for period in self.tables.periods:
            self._late(period)

    def step(self) -> tuple[str, str]:
        """Take a step, and return what it was, and what is wrong afterwards; empty if nothing is."""
        steps: dict[Callable[[str], str], int] = {
            self._late: 8,
            self._overwritten: 6,
            self._deleted: 3,
            self._load: 24,
            self._load_all: 8,
            self._reload: 4,
            self._hold: 8,
            self._approve: 8,
            self._discard: 3,
            self._restore: 5,
            self._unpin: 5,
            self._adopt: 3,
            self._forget: 2,
            self._insert: 5,
            self._delete_rows: 4,
            self._drop_rows: 1,
            self._alter: 4,
            self._merge: 5,
            self._kill_load: 6,
            self._kill_server: 2,
            self._load_twice: 3,
        }
        act = self.choose.choices([*steps], [*steps.values()])[0]
        self.kind = act.__name__.strip("_").replace("_", " ")
        did = act(self.choose.choice([*self.tables.periods]))
        return did, "; ".join(self.answers.differences())

    def end(self) -> None:
        """Drop the tables."""
        self.tables.run(*(f"DROP TABLE IF EXISTS {self.tables.name}{of} SYNC" for of in ("_view", "_sums", "")))

    def _late(self, period: str) -> str:
        self.tables.put(period, f"{next(self.names)}.csv")
        return f"{period}: a file came"

    def _overwritten(self, period: str) -> str:
        self.tables.put(period, self.choose.choice([*self.tables.periods[period].files]))
        return f"{period}: a file was overwritten"

    def _deleted(self, period: str) -> str:
        files = [*self.tables.periods[period].files]
        if len(files) > 1:
            self.tables.delete(period, self.choose.choice(files))
        return f"{period}: a file was deleted"

    def _load(self, period: str) -> str:
        on_changed = self.choose.choice(("fail", "fail", "fail", "reload", "hold"))
        return self._loaded([period], on_changed=on_changed)

    def _load_all(self, _: str) -> str:
        return self._loaded([*self.tables.periods], on_changed=self.choose.choice(("fail", "reload")))

    def _reload(self, period: str) -> str:
        return self._loaded([period], is_reload=True, on_changed=self.choose.choice(("fail", "reload")))

    def _hold(self, period: str) -> str:
        return self._loaded([period], is_held=True)

    def _loaded(self, periods: list[str], **how: Any) -> str:
        """Load, and have the model follow what each period may become."""
        may = {period: self.tables.periods[period].load_does(**how) for period in periods}
        did = f"{', '.join(periods)} loaded, {how or 'as usual'}: "
        try:
            results = self._results(periods, **how)
        except AirflowSkipException as skipped:
            results = {periods[0]: "held" if "held" in str(skipped) else "skipped"}
        except REFUSED as error:
            # A view's table that somebody has changed stops the load of its base, too: the rows tell.
            known = {} if "so nothing was loaded" in str(error) else may
            results = {period: next(iter(one)) for period, one in known.items() if len(one) == 1}
            if not any({"error"} & each for each in may.values()) and "_sums" not in str(error):
                raise
            did += f"{error}"
            self._settle(periods, results)
            return did
        for period, status in results.items():
            assert status in may[period], f"{period} is {status}, and a load may: {may[period]}"
        self._settle(periods, results)
        for period in periods:
            if results[period] in ("published", "unchanged"):
                self.tables.periods[period].of_view = self.tables.sums(self.tables.periods[period].content)
        return did + str(results)

    def _settle(self, periods: Iterable[str], results: Mapping[str, str]) -> None:
        found = self.tables.content()
        for period in periods:
            model = self.tables.periods[period]
            if period in results:
                _follow(model, results[period])
            elif found[period] != model.content:
                # In doubt, and in a task that failed for another period: the rows tell.
                _follow(model, "published")
            self._settle_view(period)

    def _settle_view(self, period: str) -> None:
        """Take what the view's table holds, if that is what the table gives: its load may follow a failed one."""
        model = self.tables.periods[period]
        sums = self.tables.sums(model.content)
        if self.tables.content_of_view()[period] == sums:
            model.of_view = sums

    def _results(self, periods: list[str], **how: Any) -> dict[str, str]:
        options: dict[str, Any] = {"on_target_changed": how.get("on_changed", "fail")}
        options["replace_unknown"] = options["on_target_changed"] == "reload"
        if how.get("is_held"):
            options |= _NEVER
        conf = {"database": self.lake.database, "table": self.tables.table, "periods": periods}
        context = {"dag_run": _Run({"chs3_reload": conf} if how.get("is_reload") else {})}
        of = {"period": periods[0]} if len(periods) == 1 else {"period": None, "periods": periods}
        operator = self.lake.operator(
            table=self.tables.table,
            key=self.answers.key,
            file_format="CSVWithNames",
            views="follow" if self.tables.has_view else "warn",
            keep_versions=2,
            **POLICIES,
            **of,
            **options,
        )
        found = operator.execute(context)
        results = found if isinstance(found, list) else [found]
        return {result["period"]: result["status"] for result in results}

    def _approve(self, period: str) -> str:
        model = self.tables.periods[period]
        may = model.has_hold and not model.is_pinned and model.held is not None and model.held.files == model.now
        result, why = _tried(lambda: self._of_objects(ApprovePeriodsOperator, period))
        if result is None:
            assert not may or model.is_in_doubt, f"{period} is not approved: {why}"
            return f"{period} is not approved: {why}"
        assert may or model.is_in_doubt or result["status"] == "unchanged", f"{period} is {result['status']}"
        if result["status"] == "published" and model.held:
            model.publish(model.held.rows, model.held.files)
        return f"{period} is approved: {result['status']}"

    def _of_objects(self, kind: Any, period: str, **options: Any) -> Any:
        place = {"bucket": self.lake.bucket, "key": self.answers.key, "periods": [period]}
        return kind(**grouped(task_id="decide", **place, **self.answers.where, **options)).execute({})

    def _of_table(self, kind: Any, period: str, **options: Any) -> Any:
        return kind(task_id="decide", periods=[period], **self.answers.where, **options).execute({})

    def _discard(self, period: str) -> str:
        self._of_table(DiscardPeriodsOperator, period)
        self.tables.periods[period].held = None
        return f"{period} is discarded"

    def _restore(self, period: str) -> str:
        model, versions = self.tables.periods[period], self._of_table(ListVersionsOperator, period)
        if not versions:
            return f"{period} has no version"
        version = self.choose.choice(versions)
        is_of_structure = self.answers.structures[period, version["table"]] == self.tables.structure
        rows, replaces = self.tables.content_of_version(version["table"], period), self.choose.random() < 1 / 2
        options = {"version": version["attempt"], "replace_changed": replaces}
        result, why = _tried(lambda: self._of_table(RestorePeriodsOperator, period, **options))
        if result is None:
            assert model.is_of_others or not is_of_structure, f"{period} is not restored: {why}"
            return f"{period} is not restored: {why}"
        # A version follows columns that were added since.
        self.answers.structures[period, version["table"]] = self.tables.structure
        assert not model.is_of_others or replaces or model.is_in_doubt, f"{period} is restored over rows of others"
        assert result["rows"] == rows.total(), f"{period} is restored with {result['rows']} rows of {rows.total()}"
        if result["status"] == "restored":
            model.restore(rows)
        return f"{period} is restored: {result}"

    def _unpin(self, period: str) -> str:
        self._of_table(UnpinPeriodsOperator, period)
        self.tables.periods[period].is_pinned = False
        return f"{period} is unpinned"

    def _adopt(self, period: str) -> str:
        model = self.tables.periods[period]
        result, why = _tried(lambda: self._of_objects(AdoptPeriodsOperator, period, definition=DEFINITION))
        if result is None:
            return f"{period} is not adopted: {why}"
        if result["status"] == "adopted":
            assert model.content.total() == model.rows_of_files.total(), f"{period} is adopted with other rows"
            model.publish(model.content, model.now)
        return f"{period} is adopted: {result['status']}"

    def _forget(self, period: str) -> str:
        model = self.tables.periods[period]
        with suppress(*REFUSED):
            self._of_table(ForgetPeriodsOperator, period)
            model.published, model.held, model.is_in_doubt = None, None, False
            model.is_changed = model.is_pinned = model.is_restored = False
        return f"{period} is forgotten"

    def _insert(self, period: str) -> str:
        """Insert rows of somebody: often as many as a file has, or as were replaced."""
        model = self.tables.periods[period]
        sizes = [rows.total() for rows in (model.content, model.rows_of_files, *model.history[-1:])]
        rows = self.tables.some_rows(period, self.choose.choice([1, *sizes]))
        self.tables.insert(rows)
        model.change(model.content + rows)
        model.of_view = model.of_view + self.tables.sums(rows)
        if is_merged := self.choose.random() < 1 / 2:
            self._merge(period)
        return f"{period}: {rows.total()} rows of others{', merged' * is_merged}"

    def _delete_rows(self, period: str) -> str:
        # If a period keeps its rows, merges would hide that (docs/protocol.md), and servers refuse lightweight
        # deletes where a table has projections.
        contents = [model.content for model in self.tables.periods.values() if model.content]
        rests = [rest for rest in range(5) if all(any(key % 5 == rest for _, key, _ in rows) for rows in contents)]
        if not rests:
            return "no rows deleted"
        rest, light = self.choose.choice(rests), self.choose.random() < 1 / 2 and not self.tables.projections
        where = f"WHERE k % 5 = {rest}"
        name = self.tables.name
        self.tables.run(
            f"DELETE FROM {name} {where}" if light else f"ALTER TABLE {name} DELETE {where} SETTINGS mutations_sync = 2"
        )
        for model in self.tables.periods.values():
            model.change(Counter({row: 1 for row in model.content if row[1] % 5 != rest}))
        return f"rows deleted{' lightly' * light}"

    def _drop_rows(self, period: str) -> str:
        if self.tables.engine.startswith("Summing") and any(model.held for model in self.tables.periods.values()):
            # Merges may leave nothing of rows of others over which others are held (docs/reference/proof.md).
            return "no rows dropped"
        self.tables.run(f"TRUNCATE TABLE {self.tables.name}")
        for model in self.tables.periods.values():
            model.change(Counter())
        return "all rows dropped"

    def _alter(self, period: str) -> str:
        """Alter what no file has: what is held cannot be approved until it is altered back."""
        alteration = self.tables.alter(self.choose, f"{next(self.names)}")
        for model in self.tables.periods.values():
            model.structure = self.tables.structure
            if alteration.startswith(("RENAME", "MODIFY")) and model.content:
                # Values of other columns may be lost, whichever these are.
                model.be_changed()
        return alteration

    def _merge(self, period: str) -> str:
        self.tables.run(f"OPTIMIZE TABLE {self.tables.name} FINAL")
        return "merged"

    def _kill_load(self, period: str) -> str:
        dies_at, taken = self.choose.randrange(_MOST_STEPS_OF_LOAD), count()

        def dying(runner: Runner, step: Step) -> Any:
            if next(taken) == dies_at:
                signal.raise_signal(signal.SIGKILL)
            return perform(runner, step)

        def load() -> None:
            with performing(dying):
                self._results([period])

        ended = Worker(load, log=self.log).wait()
        self._doubt(period)
        return f"{period}: a load killed before its step {dies_at} ({ended})"

    def _kill_server(self, period: str) -> str:
        worker = Worker(lambda: self._results([period]), log=self.log)
        time.sleep(self.choose.random() * _SOME_SECONDS)
        self.lake.cluster.kill(0)  # type: ignore[attr-defined]
        worker.wait_or_kill(timeout_seconds=_TIMEOUT_SECONDS)
        self.lake.cluster.restart(0)  # type: ignore[attr-defined]
        self._doubt(period, is_server=True)
        return f"{period}: the server killed amid a load"

    def _load_twice(self, period: str) -> str:
        workers = [Worker(lambda: self._results([period]), log=self.log)]
        time.sleep(self.choose.random() * _SOME_SECONDS)
        workers.append(Worker(lambda: self._results([period]), log=self.log))
        for worker in workers:
            worker.wait_or_kill(timeout_seconds=_TIMEOUT_SECONDS)
        self._doubt(period)
        return f"{period}: two loads at once"

    def _doubt(self, period: str, *, is_server: bool = False) -> None:
        """Look at what died has left: the rows before, or those of the files; of a server before 26.6 maybe both."""
        model, found = self.tables.periods[period], self.tables.content()[period]
        new = model.rows_of_files
        if "published" in model.load_does() or found != model.content:
            both = {tuple(sorted(each.items())) for each in (model.content, new)}
            is_both = is_server and found <= model.content + new and (model.content <= found or new <= found)
            assert tuple(sorted(found.items())) in both or is_both, f"{period} holds neither rows"
            assert "published" in model.load_does() or found == model.content, f"{period} was published"
            if found == new and found != model.content:
                model._hold(found)
            elif found != model.content:
                model.history.append(model.content)
                model.content = found
            model.history.append(new)
            model.is_in_doubt, model.held = True, None
        self._settle_view(period)


class _Run:
    """A run with this conf."""

    def __init__(self, conf: dict[str, Any]) -> None:
        self.conf = conf


def _tried(act: Callable[[], Any]) -> tuple[Any, str]:
    """Return what becomes of a period, or why it is refused."""
    try:
        (result,) = act()
    except REFUSED as error:
        return None, str(error)
    return result, ""


def _follow(model: ModelPeriod, status: str) -> None:
    """Have a period become what a load says."""
    if status == "published":
        model.publish(model.rows_of_files, model.now)
    elif status == "unchanged":
        if model.is_in_doubt:
            model.publish(model.rows_of_files, model.now)
    elif status == "held" and not (model.has_hold and model.held and model.held.files == model.now):
        model.held = HeldRows(model.rows_of_files, model.now, model.epoch, model.structure)
        model.is_in_doubt = model.is_in_doubt and model.published is None
