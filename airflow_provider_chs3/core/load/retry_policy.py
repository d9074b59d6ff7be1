"""Decide how a load starts over: after an error, or although nothing changed, as the conf of a run asks.

Starting over is always safe: every attempt has its own staging table, and the next attempt cleans it up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

from airflow_provider_chs3.core.arguments.declaration import Group, argument, declared
from airflow_provider_chs3.core.model.error_codes import (
    MEMORY_LIMIT_EXCEEDED,
    S3_ERROR,
    TOO_MANY_PARTS,
    is_broken_off,
    is_object_gone,
    is_of_insert,
    is_of_storage,
    is_terminal,
)
from airflow_provider_chs3.core.model.models import Setting, TableName
from airflow_provider_chs3.core.model.period import Period, parse_periods
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.topology import local_table
from airflow_provider_chs3.core.tuning.insert_settings import DEFAULT_BLOCK_BYTES, DEFAULT_BLOCK_ROWS, YOURS
from airflow_provider_chs3.exceptions import (
    BaseChangedError,
    Chs3Error,
    ClickHouseServerError,
    ColumnsAddedError,
    ConfigurationError,
    FilesDifferError,
    InsertLostError,
    ObjectsChangedError,
    TransientError,
)

#: How often the objects are listed again because they change.
MAX_NEW_LISTS = 3
#: How often a load waits for overloaded servers or storage.
MAX_WAITS = 3
#: How often an insert with an unknown outcome is repeated.
MAX_LOST = 3
#: The first wait, and the increase with every further wait.
WAIT_SECONDS = 20

_BUSY = {
    202: "too many queries run there",
    203: "no connection is free there",
    TOO_MANY_PARTS: "it has too many parts: merges must catch up first",
    S3_ERROR: "the storage refused a request, or the connection broke",
}

#: Messages about a database that cannot be reached, or closed the connection, as in a restart.
_DATABASE_AWAY = re.compile(
    r"Connection to `.*` failed|Connections to mysql failed|mysqlxx::Connection(?:Failed|Lost)"
    r"|pqxx::(?:broken_connection|in_doubt_error)|terminating connection"
)
_DATABASE_REFUSES = re.compile(
    r"authentication failed|no password supplied|pg_hba\.conf|does not exist|permission denied|not permitted"
    r"|Access denied|Unknown database|is not allowed to connect|certificate|does not support SSL|sslmode"
)

_THREADS = ("max_insert_threads",)
_BLOCK = ("min_insert_block_size_bytes", "min_insert_block_size_rows")
_READERS = ("max_threads", "input_format_parquet_memory_high_watermark")
#: Blocks first: they only cost parts. Fewer threads cost time.
_ORDER = (_BLOCK, _THREADS, _READERS)
#: The server's values if none was computed.
_DEFAULTS = {_BLOCK[0]: DEFAULT_BLOCK_BYTES, _BLOCK[1]: DEFAULT_BLOCK_ROWS}
#: Values that are not halved any further.
_FLOORS = {_BLOCK[0]: 16 * 1024**2, _BLOCK[1]: 2**16, _THREADS[0]: 1, _READERS[0]: 1, _READERS[1]: 64 * 1024**2}


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryState:
    """The problems of earlier tries of a load, for the next try.

    Readers were halved if the storage did not keep up; an insert is lost if no server knows its outcome; `whole` is the
    reason to load all objects instead of new ones.
    """

    memory_steps: int = 0
    reader_steps: int = 0
    new_lists: int = 0
    waits: int = 0
    lost: int = 0
    files_differ: bool = False
    whole: str = ""

    def add(self, **problems: int) -> RetryState:
        """Return the state after further problems: by how many each number grows."""
        return replace(self, **{name: getattr(self, name) + number for name, number in problems.items()})


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """A decision to start over."""

    retry_state: RetryState
    reason: str
    wait_seconds: int = 0


def next_retry(error: Chs3Error, retry_state: RetryState) -> Retry | None:
    """Return how to start over after an error of a load; None if that does not help."""
    is_gone = isinstance(error, ClickHouseServerError) and is_object_gone(error)
    if is_gone or isinstance(error, ObjectsChangedError | ColumnsAddedError):
        return _list_again(retry_state)
    if isinstance(error, FilesDifferError):
        return Retry(retry_state=replace(retry_state, files_differ=True), reason="looking at the files first")
    if isinstance(error, BaseChangedError):
        return Retry(retry_state=replace(retry_state, whole=str(error)), reason="loading all objects of the period")
    if isinstance(error, InsertLostError) and retry_state.lost < MAX_LOST:
        return Retry(retry_state=retry_state.add(lost=1), reason="inserting again")
    if not isinstance(error, ClickHouseServerError) or is_terminal(error):
        return None
    if error.code == MEMORY_LIMIT_EXCEEDED and not is_of_insert(error):
        # Only settings of the insert can be lowered.
        return _wait_and_retry(error, retry_state, "it ran out of memory") if _is_of_server(error) else None
    if error.code == MEMORY_LIMIT_EXCEEDED:
        waits = _is_of_server(error) and retry_state.waits < MAX_WAITS
        lower = retry_state.add(memory_steps=1, waits=int(waits))
        wait_seconds = WAIT_SECONDS * (retry_state.waits + 1) if waits else 0
        reason = f"{error.host} ran out of memory, so this try uses less"
        return Retry(retry_state=lower, reason=reason, wait_seconds=wait_seconds)
    if _DATABASE_AWAY.search(error.message) and not _DATABASE_REFUSES.search(error.message):
        return _wait_and_retry(error, retry_state, "the database did not answer, or closed the connection")
    code = S3_ERROR if is_of_storage(error) or is_broken_off(error) else error.code
    if code == S3_ERROR:
        retry_state = retry_state.add(reader_steps=1)
    return _wait_and_retry(error, retry_state, _BUSY[code]) if code in _BUSY else None


def _wait_and_retry(error: ClickHouseServerError, retry_state: RetryState, cause: str) -> Retry | None:
    if retry_state.waits == MAX_WAITS:
        return None
    waited = retry_state.add(waits=1)
    reason = f"{error.host}: {cause} (wait {waited.waits} of {MAX_WAITS})"
    return Retry(retry_state=waited, reason=reason, wait_seconds=WAIT_SECONDS * waited.waits)


def _is_of_server(error: ClickHouseServerError) -> bool:
    """Check whether the server's memory limit was reached: other queries may soon free memory."""
    return "(total)" in error.message


def _list_again(retry_state: RetryState) -> Retry | None:
    if retry_state.new_lists == MAX_NEW_LISTS:
        return None
    listed = retry_state.add(new_lists=1)
    return Retry(retry_state=listed, reason=f"listing the objects again ({listed.new_lists} of {MAX_NEW_LISTS})")


def lower_settings(settings: tuple[Setting, ...], retry_state: RetryState) -> tuple[Setting, ...]:
    """Lower settings after earlier tries: a memory step halves blocks, insert threads or reading threads, in turn."""
    values = {setting.name: setting for setting in settings}
    for _ in range(retry_state.reader_steps):
        values = _halve(values, _READERS[:1], "the storage did not keep up")
    steps = retry_state.memory_steps
    while steps:
        before = values
        for names in _ORDER:
            halved = _halve(values, names, "an earlier try ran out of memory")
            if steps and halved != values:
                values, steps = halved, steps - 1
        if values == before:
            raise _out_of_memory(values.get("max_memory_usage"))
    return tuple(values.values())


def _out_of_memory(limit: Setting | None) -> TransientError:
    way_out = "allow loads more memory (memory_share, node_specs, the server's limits), or load fewer periods at once"
    if limit and limit.reason == YOURS:
        way_out = f"raise max_memory_usage, which the load's own settings limit to {limit.value}"
    return TransientError(
        "A node ran out of memory even with the smallest blocks and the fewest threads that a load takes: "
        f"{way_out}. The rows of this insert were not published."
    )


def _halve(values: Mapping[str, Setting], names: tuple[str, ...], reason: str) -> dict[str, Setting]:
    halved = dict(values)
    for name in names:
        setting = values.get(name)
        value = int(setting.value) if setting else _DEFAULTS.get(name, 0)
        if value > _FLOORS[name] and not (setting and setting.reason == YOURS):
            halved[name] = Setting(name, max(value // 2, _FLOORS[name]), f"half of {value}, as {reason}")
    return halved


#: The key in a run's conf.
RELOAD = "chs3_reload"

ASKED_FOR = "it is as published, but a reload was requested"

#: Keys with this prefix are meant for this package, as are mappings under a name similar to `RELOAD`.
_OURS = "chs3"
_NEARLY = 0.8


@dataclass(frozen=True, kw_only=True, slots=True)
class Reload(Group):
    """The periods that a run reloads, or approves; it skips all other periods and tables."""

    target: TableName
    periods: tuple[Period, ...]
    replace_rows_of_others: bool = argument(
        False, "Also replace rows that somebody else inserted or changed; rows erased on request come back."
    )
    allow_shrink: bool = argument(
        False,
        "Also load objects that shrank by more than max_shrink_fraction since they were published: their rows go.",
    )
    approve: bool = argument(False, "Publish the rows that are held, instead of loading the periods.")

    def __str__(self) -> str:
        return f"{self.target} {', '.join(map(str, self.periods))}"

    @property
    def period(self) -> Period:
        """The only period, for loads without a period argument."""
        if len(self.periods) > 1:
            raise ConfigurationError(
                f"This run reloads {self}, but this load takes one period: name one period in {RELOAD}, or map "
                "the load over the output of PlanLoadsOperator."
            )
        return self.periods[0]

    def leaves_out_table(self, target: TableName, cluster: str | None) -> Steps[bool]:
        """Check whether a table is a different one."""
        if target == self.target:
            return False
        local = yield from local_table(target, cluster)
        return local != self.target


#: What a person may allow, or ask for, in one run.
RELOAD_OPTIONS = declared(Reload)
_TAKES = f"database, table, periods and, if wanted, {', '.join(RELOAD_OPTIONS)}"


def reload_of(conf: Mapping[str, Any] | None) -> Reload | None:
    """Parse the reload in the conf of a run, `{"chs3_reload": {"database": …, "table": …, "periods": […]}}`, if any."""
    if unknown := [key for key, value in (conf or {}).items() if key != RELOAD and _looks_like_ours(key, value)]:
        raise ConfigurationError(
            f"The run's conf has {unknown[0]!r}, which has no meaning, so the run would load what it always loads: "
            f"the only key is {RELOAD}, which takes {_TAKES}."
        )
    asked = (conf or {}).get(RELOAD)
    if asked is None:
        return None
    given = dict(asked) if isinstance(asked, Mapping) else {}
    database, table, periods = (given.pop(name, None) for name in ("database", "table", "periods"))
    allowed = {name: given.pop(name, False) for name in RELOAD_OPTIONS}
    names = (database, table, *(periods if isinstance(periods, list) else [periods]))
    is_named = bool(periods) and all(isinstance(name, str) and name for name in names)
    if given or not is_named or not all(isinstance(value, bool) for value in allowed.values()):
        raise ConfigurationError(
            f"The run's conf has {RELOAD}={asked!r}, which takes {_TAKES}, such as "
            f'{{"{RELOAD}": {{"database": "taxi", "table": "trips", "periods": ["2026-01"]}}}}.'
        )
    target = TableName(database, table)
    return Reload(target=target, periods=parse_periods(periods), **allowed)


def _looks_like_ours(key: str, value: Any) -> bool:
    letters, known = (re.sub("[^a-z0-9]", "", name.lower()) for name in (str(key), RELOAD))
    is_nearly = isinstance(value, Mapping) and SequenceMatcher(None, letters, known).ratio() > _NEARLY
    return letters.startswith(_OURS) or is_nearly
