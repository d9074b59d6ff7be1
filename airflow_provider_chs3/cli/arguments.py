"""The arguments of the command line, and what operators get from them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, replace
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3 import __version__
from airflow_provider_chs3.core.arguments import load_arguments
from airflow_provider_chs3.core.arguments.declaration import REQUIRED, Argument, declared
from airflow_provider_chs3.core.arguments.proof_arguments import OBJECT_COLUMN, SAMPLE
from airflow_provider_chs3.core.doctor.privileges import PURPOSES
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.sources import OBJECT_STORAGES, STORAGES, storage_class

if TYPE_CHECKING:
    from airflow_provider_chs3.sources.storage import Storage

#: The formats of results; only a table comes with lines of progress, and text.
OUTPUTS = ("table", "json", "yaml")
#: The command that does without a source, and then skips its checks.
DOCTOR = "doctor"
#: The option that may be empty: a public bucket.
_AWS = "aws_conn_id"

_ABOUT = """Check what loads depend on, and maintain their records, from the shell. Connections are Airflow's, named by
their ids, from its database, its secrets backend or AIRFLOW_CONN_<ID>; the command line contains no secrets. Results go
to stdout, all else to stderr."""

_EXIT_CODES = """exit codes:
  0  nothing to do: every period as published, nothing to load, all adopted, nothing left to clean, no finding
  1  something to do: periods to load (plan), not as published (ledger), missing though due (status, ledger) or
     refused (adopt), staging to drop (clean --dry-run), findings (doctor), or rows that differ from the objects (prove,
     rehearse)
  2  wrong arguments, or an error; stderr says which
"""

_OLDER_THAN_HOURS = replace(
    load_arguments.OLDER_THAN_SECONDS,
    name="older_than_hours",
    help="Minimum age of the staging: pass more than the longest load takes.",
    default=24,
)
_DAYS = Argument(name="days", help="How many days back.", type="int", default=30, least=1, most=3_660)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="chs3",
        description=_ABOUT,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"chs3 {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, (about, *options) in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=about,
            description=f"{about[0].upper()}{about[1:]}.",
            epilog=_EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for add_to in (*options, *_OF_RESULT):
            add_to(command)
    return parser


def periods_of(given: argparse.Namespace) -> tuple[str, ...]:
    """Return the periods named on the command line; empty without any."""
    periods = {Period.parse(text) for text in given.period or ()}
    if given.first or given.last:
        if periods:
            raise ConfigurationError("--period with --from and --to: name the periods in one of these ways.")
        if not (given.first and given.last):
            raise ConfigurationError("Pass both --from and --to, such as --from 2026-01 --to 2026-12.")
        first, last = Period.parse(given.first), Period.parse(given.last)
        if last < first:
            raise ConfigurationError(f"--from {first} is after --to {last}: pass the first period, then the last.")
        if first.grain is not last.grain:
            raise ConfigurationError(f"Periods of one load have one length: --from {first} and --to {last} have two.")
        periods.update(first.through(last))
    return tuple(str(period) for period in sorted(periods))


def storage_of(given: argparse.Namespace) -> Storage | None:
    """Return the storage of the objects; None for the doctor, who may do without."""
    storage, options = storage_class(given.storage), _options(given)
    if given.command == DOCTOR and "key" in _missing(storage, options):
        return None
    return _made(storage, options, given)


def object_storage(given: argparse.Namespace, key: str) -> Storage:
    """Return the storage of objects."""
    return _made(storage_class(given.storage), {**_options(given), "key": key}, given)


def flag(name: str) -> str:
    """Return an option as it is written."""
    return f"--{name.replace('_', '-')}"


def storage_options() -> tuple[str, ...]:
    """Return the options of all storages."""
    return tuple(dict.fromkeys(name for storage in STORAGES for name in storage_class(storage).options))


def _options(given: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the storage that have a value."""
    accepted = storage_class(given.storage).options
    every = {name: getattr(given, name, None) for name in storage_options()}
    if refused := [flag(name) for name in every if every[name] and name not in (*accepted, _AWS)]:
        raise ConfigurationError(f"{', '.join(refused)}: --storage {given.storage} does not take this.")
    return {name: every[name] or None for name in accepted if every[name] or (name == _AWS and every[name] == "")}


def _missing(storage: type[Storage], options: Mapping[str, Any]) -> list[str]:
    needed = {field.name for field in fields(storage) if field.default is MISSING}
    return [name for name, argument in storage.options.items() if argument in needed and name not in options]


def _made(storage: type[Storage], options: Mapping[str, Any], given: argparse.Namespace) -> Storage:
    if missing := _missing(storage, options):
        names = " and ".join(map(flag, missing))
        raise ConfigurationError(
            f"Nothing says where the objects are: for --storage {given.storage}, pass {names}, or name their load by "
            "--dag or --loads."
        )
    return storage.of_options(options)


#: An option of some commands, as `add_argument` takes it: called with a command, it is added to that.
_Option = partial(methodcaller, "add_argument")


def _declared(declaration: Argument, **given: Any) -> methodcaller:
    """Return the option of an argument that operators take, too."""
    by_default = f"; by default {declaration.default_text}" if declaration.default_text else ""
    text = f"{declaration.help[0].lower()}{declaration.help[1:-1]}{by_default}".replace("`", "").replace("%", "%%")
    if declaration.default not in (None, REQUIRED):
        given = {"type": partial(_checked, declaration), "default": declaration.default, **given}
    return _Option(flag(declaration.name), help=text, **given)


def _checked(declaration: Argument, text: str) -> Any:
    try:
        return declaration.checked(text)
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _json_object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError('pass a JSON object, such as {"name": "value"}')
    return value


def _storage(storages: Iterable[str]) -> tuple[methodcaller, ...]:
    return (
        _Option(
            "--storage", choices=tuple(storages), default="s3", help="where the periods are, if not in S3 (%(default)s)"
        ),
        _Option("--storage-conn-id", metavar="ID", help="connection to that storage; by default that of its operator"),
        _Option("--hdfs-url", metavar="URL", help="name node of HDFS, as seen from the servers"),
    )


_CONNECTION = _Option("--conn-id", help="connection of type chs3 ([chs3] clickhouse_conn_id)")
_OF_RESULT = (
    _Option("-o", "--output", choices=OUTPUTS, default=OUTPUTS[0], help="format of the result (%(default)s)"),
    _Option("--verbose", action="store_true", help="log every step to stderr"),
)
_TABLE = (
    _CONNECTION,
    _Option(
        "--loads",
        nargs="+",
        metavar=("FILE", "NAME"),
        help="file of loads, instead of --table, and the names of those that it is about (all)",
    ),
    _Option("--dag", metavar="ID", help="DAG whose loads it is about, instead of --table: its tasks say all the rest"),
    _Option("--task", metavar="ID", help="with --dag: only this task or group of tasks"),
    _declared(load_arguments.TABLE),
    _declared(load_arguments.DATABASE),
    _declared(load_arguments.CLUSTER),
    _declared(load_arguments.STAGING_DATABASE, metavar="DATABASE"),
)
_ACCESS = (
    _Option("--aws-conn-id", help="AWS connection; empty for a public bucket ([chs3] aws_conn_id)"),
    _Option("--named-collection", metavar="NAME", help="named collection with which the servers read instead"),
    _Option("--role-arn", metavar="ARN", help="role that the servers assume instead"),
    _Option("--external-id", metavar="ID", help="external id that the role asks for"),
    _Option("--endpoint-url", metavar="URL", help="URL of the storage, as seen from the servers"),
)
_SOURCE = (
    _declared(load_arguments.KEY),
    _Option("--bucket", help="bucket of the objects, or container, unless --key names it"),
    *_ACCESS,
    *_storage(STORAGES),
    _Option(
        "--source-table",
        metavar="NAME",
        help="table of a database or a lakehouse, in place of --key; URI of a Delta one",
    ),
    _Option("--time-column", metavar="NAME", help="the column that decides a row's period"),
    _Option("--timezone", help="zone in which periods begin in that table, the same as for its loads"),
    _Option("--key-column", help="key of a database's table, the same as for its loads"),
    _Option("--fingerprint", help="aggregate of a database's table, the same as for its loads"),
)
_PERIODS = (
    _Option("--period", action="append", metavar="2026-10", help="a period; can be repeated"),
    _Option("--from", dest="first", metavar="2026-10", help="first of several periods, with --to"),
    _Option("--to", dest="last", metavar="2026-10", help="last of several periods, with --from"),
)
_ALL_PERIODS = _Option("--all-periods", action="store_true", help="all periods in the bucket")

#: What each command does, and its options.
_COMMANDS: Mapping[str, tuple[Any, ...]] = {
    "ledger": (
        "list the published periods of a table, with the state of each; without a table, all tables",
        *(*_TABLE, *_PERIODS),
        _Option(
            "--objects", action="store_true", help="list the loaded objects instead, with the time and load of each"
        ),
    ),
    "status": (
        "show which tables have all periods that are due by the fresh_by of their loads; nothing is written",
        *_TABLE,
    ),
    "costs": (
        "show what each table's loads cost: objects read, rows, and seconds of inserts on all nodes",
        *_TABLE,
        _declared(_DAYS, metavar="DAYS"),
    ),
    "plan": (
        "show which periods would be loaded, and why; nothing is written",
        *(*_TABLE, *_SOURCE, *_PERIODS, _ALL_PERIODS),
    ),
    "adopt": (
        "record periods that were loaded by other means as published, if they have as many rows as their objects",
        *(*_TABLE, *_SOURCE, *_PERIODS, _ALL_PERIODS),
        _Option("--prove", action="store_true", help="compare the values, too, as chs3 prove does"),
    ),
    "prove": (
        "prove that periods of a table hold exactly their objects' rows, whoever wrote them; nothing is written",
        *(*_TABLE, *_SOURCE, *_PERIODS, _ALL_PERIODS),
        _declared(OBJECT_COLUMN, metavar="NAME"),
        _declared(SAMPLE, metavar="OBJECTS"),
    ),
    "forget": (
        "remove periods from the ledger; their rows stay",
        *(*_TABLE, *_PERIODS),
        _Option("--all-periods", action="store_true", help="all periods in the ledger"),
    ),
    "versions": ("list the earlier versions that loads have kept of periods", *_TABLE, *_PERIODS),
    "restore": (
        "publish an earlier version of periods, and pin them: loads leave them until chs3 unpin",
        *(*_TABLE, *_PERIODS),
        _declared(load_arguments.VERSION, metavar="ATTEMPT"),
        _Option(
            "--replace-changed",
            action="store_true",
            help="restore periods that somebody changed since they were published: a DELETE is undone",
        ),
    ),
    "unpin": ("let loads replace restored periods again", *_TABLE, *_PERIODS),
    "approve": (
        "publish the rows of periods that loads hold, if neither objects nor table have changed since",
        *(*_TABLE, *_PERIODS, *_SOURCE),
    ),
    "discard": ("drop the rows of periods that loads hold; the next load loads these", *_TABLE, *_PERIODS),
    "clean": (
        "drop the staging tables that dead loads left behind, and end their queries",
        _CONNECTION,
        _Option("--database", help="database of staging and ledger; the connection's by default"),
        _Option("--cluster", help="cluster; the connection's by default"),
        _declared(_OLDER_THAN_HOURS, metavar="HOURS"),
        _Option("--dry-run", action="store_true", help="only show what would be dropped"),
    ),
    DOCTOR: (
        "check everything that loads depend on, and report problems; nothing is written",
        *(*_TABLE, *_SOURCE),
        _Option("--period", metavar="2026-10", help="check a load of this period, up to its first write (the newest)"),
        _Option(
            "--for",
            dest="purposes",
            action="append",
            choices=list(PURPOSES),
            metavar="PURPOSE",
            help="purpose for which the connection's user needs privileges: "
            f"{', '.join(PURPOSES)}; can be repeated (load)",
        ),
    ),
    "rehearse": (
        "prove on these servers that periods are exact, with small objects and a separate table",
        _CONNECTION,
        _Option("--database", required=True, help="existing database for its table and staging"),
        _Option("--bucket", help="bucket, or container, for its objects; HDFS has none"),
        _Option("--prefix", required=True, help="prefix of their keys; no objects may exist under it"),
        _Option(
            "--like",
            metavar="DATABASE.TABLE",
            help="table whose replicas, disks and settings it copies; without it, a MergeTree",
        ),
        _declared(load_arguments.STAGING_DATABASE, metavar="DATABASE"),
        _declared(load_arguments.CLUSTER),
        _Option("--clean", action="store_true", help="only remove what killed rehearsals left behind"),
        *(*_ACCESS, *_storage(OBJECT_STORAGES)),
    ),
    "ddl": (
        "print CREATE TABLE for the files of a period, with the reason of each choice; nothing is written",
        *(*_TABLE, *_SOURCE),
        _Option("--period", required=True, metavar="2026-10", help="period whose files define the columns"),
        _declared(declared(load_arguments.Files)["file_format"], metavar="NAME"),
        _declared(load_arguments.CSV, type=_json_object, metavar="JSON"),
    ),
    "schema": ("print the JSON schema of files of loads, by which editors check them",),
}
