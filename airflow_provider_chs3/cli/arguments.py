"""The arguments of the command line, and what operators get from them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3 import __version__
from airflow_provider_chs3.core.arguments.declaration import REQUIRED, Argument, declared
from airflow_provider_chs3.core.arguments.load_arguments import (
    CLUSTER,
    CSV,
    DATABASE,
    KEY,
    OLDER_THAN_SECONDS,
    STAGING_DATABASE,
    TABLE,
    VERSION,
    Files,
)
from airflow_provider_chs3.core.arguments.proof_arguments import OBJECT_COLUMN, SAMPLE
from airflow_provider_chs3.core.doctor.privileges import PURPOSES
from airflow_provider_chs3.core.model.period import Period, grain_of
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
    OLDER_THAN_SECONDS,
    name="older_than_hours",
    help="Minimum age of the staging: pass more than the longest load takes.",
    default=24,
)
_DAYS = Argument(name="days", help="How many days back.", type="int", default=30, least=1)


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
    _add_ledger(commands)
    _add_status(commands)
    _add_costs(commands)
    _add_plan(commands)
    _add_adopt(commands)
    _add_prove(commands)
    _add_forget(commands)
    _add_command_of_periods(commands, "versions", "list the earlier versions that loads have kept of periods")
    _add_restore(commands)
    _add_command_of_periods(commands, "unpin", "let loads replace restored periods again")
    _add_approve(commands)
    _add_command_of_periods(commands, "discard", "drop the rows of periods that loads hold; the next load loads these")
    _add_clean(commands)
    _add_doctor(commands)
    _add_rehearse(commands)
    _add_ddl(commands)
    _command(commands, "schema", "print the JSON schema of files of loads, by which editors check them", asks=False)
    return parser


def periods_of(given: argparse.Namespace) -> tuple[str, ...]:
    """Return the periods named on the command line; empty without any.

    Raises:
        ConfigurationError: If a period is invalid, or a range lacks its first or last period.
    """
    periods = {Period.parse(text) for text in given.period or ()}
    if given.first or given.last:
        if not (given.first and given.last):
            raise ConfigurationError("Pass both --from and --to, such as --from 2026-01 --to 2026-12.")
        period, last = Period.parse(given.first), Period.parse(given.last)
        if last < period:
            raise ConfigurationError(f"--from {period} is after --to {last}: pass the first period, then the last.")
        grain_of((period, last))
        periods |= {period, last}
        while period < last:
            periods.add(period)
            period = period.shifted(1)
    return tuple(str(period) for period in sorted(periods))


def storage_of(given: argparse.Namespace) -> Storage | None:
    """Return the storage of the objects; None for the doctor, who may do without.

    Raises:
        ConfigurationError: If an option is of another storage, or one is missing.
    """
    storage, options = storage_class(given.storage), _options(given)
    if given.command == DOCTOR and "key" in _missing(storage, options):
        return None
    return _made(storage, options, given)


def object_storage(given: argparse.Namespace, key: str) -> Storage:
    """Return the storage of objects.

    Raises:
        ConfigurationError: If an option is of another storage, or one is missing.
    """
    return _made(storage_class(given.storage), {**_options(given), "key": key}, given)


def _add_ledger(commands: Any) -> None:
    about = "list the published periods of a table, with the state of each; without a table, all tables"
    command = _add_command_of_periods(commands, "ledger", about)
    command.add_argument(
        "--objects", action="store_true", help="list the loaded objects instead, with the time and load of each"
    )


def _add_costs(commands: Any) -> None:
    about = "show what each table's loads cost: objects read, rows, and seconds of inserts on all nodes"
    command = _command(commands, "costs", about)
    _add_table(command)
    _add(command, _DAYS, metavar="DAYS")


def _add_status(commands: Any) -> None:
    about = "show which tables have all periods that are due by the fresh_by of their loads; nothing is written"
    _add_table(_command(commands, "status", about))


def _add_plan(commands: Any) -> None:
    command = _command(commands, "plan", "show which periods would be loaded, and why; nothing is written")
    _add_table(command)
    _add_source(command)
    _add_periods(command, all_periods="all periods in the bucket")


def _add_adopt(commands: Any) -> None:
    command = _command(
        commands,
        "adopt",
        "record periods that were loaded by other means as published, if they have as many rows as their objects",
    )
    _add_table(command)
    _add_source(command)
    _add_periods(command, all_periods="all periods in the bucket")
    command.add_argument("--prove", action="store_true", help="compare the values, too, as chs3 prove does")


def _add_prove(commands: Any) -> None:
    about = "prove that periods of a table hold exactly their objects' rows, whoever wrote them; nothing is written"
    command = _command(commands, "prove", about)
    _add_table(command)
    _add_source(command)
    _add_periods(command, all_periods="all periods in the bucket")
    _add(command, OBJECT_COLUMN, metavar="NAME")
    _add(command, SAMPLE, metavar="OBJECTS")


def _add_forget(commands: Any) -> None:
    command = _command(commands, "forget", "remove periods from the ledger; their rows stay")
    _add_table(command)
    _add_periods(command, all_periods="all periods in the ledger")


def _add_command_of_periods(commands: Any, name: str, about: str) -> argparse.ArgumentParser:
    command = _command(commands, name, about)
    _add_table(command)
    _add_periods(command, all_periods=None)
    return command


def _add_restore(commands: Any) -> None:
    about = "publish an earlier version of periods, and pin them: loads leave them until chs3 unpin"
    command = _add_command_of_periods(commands, "restore", about)
    _add(command, VERSION, metavar="ATTEMPT")
    command.add_argument(
        "--replace-changed",
        action="store_true",
        help="restore periods that somebody changed since they were published: a DELETE is undone",
    )


def _add_approve(commands: Any) -> None:
    about = "publish the rows of periods that loads hold, if neither objects nor table have changed since"
    command = _add_command_of_periods(commands, "approve", about)
    _add_source(command)


def _add_clean(commands: Any) -> None:
    command = _command(commands, "clean", "drop the staging tables that dead loads left behind, and end their queries")
    command.add_argument("--database", help="database of staging and ledger; the connection's by default")
    command.add_argument("--cluster", help="cluster; the connection's by default")
    _add(command, _OLDER_THAN_HOURS, metavar="HOURS")
    command.add_argument("--dry-run", action="store_true", help="only show what would be dropped")


def _add_doctor(commands: Any) -> None:
    command = _command(
        commands, "doctor", "check everything that loads depend on, and report problems; nothing is written"
    )
    _add_table(command)
    _add_source(command)
    command.add_argument(
        "--period", metavar="2026-10", help="check a load of this period, up to its first write (the newest)"
    )
    command.add_argument(
        "--for",
        dest="purposes",
        action="append",
        choices=list(PURPOSES),
        metavar="PURPOSE",
        help=f"purpose for which the connection's user needs privileges: {', '.join(PURPOSES)}; can be repeated (load)",
    )


def _add_rehearse(commands: Any) -> None:
    command = _command(
        commands, "rehearse", "prove on these servers that periods are exact, with small objects and a separate table"
    )
    command.add_argument("--database", required=True, help="existing database for its table and staging")
    command.add_argument("--bucket", help="bucket, or container, for its objects; HDFS has none")
    command.add_argument("--prefix", required=True, help="prefix of their keys; no objects may exist under it")
    command.add_argument(
        "--like",
        metavar="DATABASE.TABLE",
        help="table whose replicas, disks and settings it copies; without it, a MergeTree",
    )
    _add(command, STAGING_DATABASE, metavar="DATABASE")
    _add(command, CLUSTER)
    command.add_argument("--clean", action="store_true", help="only remove what killed rehearsals left behind")
    _add_access(command)
    _add_storage(command, tuple(OBJECT_STORAGES))


def _add_ddl(commands: Any) -> None:
    about = "print CREATE TABLE for the files of a period, with the reason of each choice; nothing is written"
    command = _command(commands, "ddl", about)
    _add_table(command)
    _add_source(command)
    command.add_argument("--period", required=True, metavar="2026-10", help="period whose files define the columns")
    _add(command, declared(Files)["file_format"], metavar="NAME")
    _add(command, CSV, type=_json_object, metavar="JSON")


def _command(commands: Any, name: str, about: str, *, asks: bool = True) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if asks:
        command.add_argument("--conn-id", help="connection of type chs3 ([chs3] clickhouse_conn_id)")
    command.add_argument(
        "-o",
        "--output",
        choices=OUTPUTS,
        default=OUTPUTS[0],
        help="format of the result (%(default)s)",
    )
    command.add_argument("--verbose", action="store_true", help="log every step to stderr")
    return command


def _add_table(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--loads",
        nargs="+",
        metavar=("FILE", "NAME"),
        help="file of loads, instead of --table, and the names of those that it is about (all)",
    )
    command.add_argument(
        "--dag", metavar="ID", help="DAG whose loads it is about, instead of --table: their tasks say all the rest"
    )
    command.add_argument("--task", metavar="ID", help="with --dag: only this task or group of tasks")
    _add(command, TABLE)
    _add(command, DATABASE)
    _add(command, CLUSTER)
    _add(command, STAGING_DATABASE, metavar="DATABASE")


def _add_source(command: argparse.ArgumentParser) -> None:
    _add(command, KEY)
    command.add_argument("--bucket", help="bucket of the objects, or container, unless --key names it")
    _add_access(command)
    _add_storage(command, tuple(STORAGES))
    command.add_argument(
        "--source-table",
        metavar="NAME",
        help="table of a database or a lakehouse, in place of --key; URI of a Delta one",
    )
    command.add_argument("--time-column", metavar="NAME", help="the column that decides a row's period")
    command.add_argument("--timezone", help="zone in which periods begin in that table, the same as for its loads")
    for name, what in (("key-column", "key"), ("fingerprint", "aggregate")):
        command.add_argument(f"--{name}", help=f"{what} of a database's table, the same as for its loads")


def _add_storage(command: argparse.ArgumentParser, storages: tuple[str, ...]) -> None:
    command.add_argument(
        "--storage",
        choices=storages,
        default="s3",
        help="where the periods are, if not in S3 (%(default)s)",
    )
    command.add_argument(
        "--storage-conn-id", metavar="ID", help="connection to that storage; by default that of its operator"
    )
    command.add_argument("--hdfs-url", metavar="URL", help="name node of HDFS, as seen from the servers")


def _add_access(command: argparse.ArgumentParser) -> None:
    command.add_argument("--aws-conn-id", help="AWS connection; empty for a public bucket ([chs3] aws_conn_id)")
    command.add_argument(
        "--named-collection", metavar="NAME", help="named collection with which the servers read instead"
    )
    command.add_argument("--role-arn", metavar="ARN", help="role that the servers assume instead")
    command.add_argument("--external-id", metavar="ID", help="external id that the role asks for")
    command.add_argument("--endpoint-url", metavar="URL", help="URL of the storage, as seen from the servers")


def _add_periods(command: argparse.ArgumentParser, *, all_periods: str | None) -> None:
    command.add_argument("--period", action="append", metavar="2026-10", help="a period; can be repeated")
    command.add_argument("--from", dest="first", metavar="2026-10", help="first of several periods, with --to")
    command.add_argument("--to", dest="last", metavar="2026-10", help="last of several periods, with --from")
    if all_periods:
        command.add_argument("--all-periods", action="store_true", help=all_periods)


def _add(command: argparse.ArgumentParser, declaration: Argument, **given: Any) -> None:
    """Add the option of an argument that operators take, too."""
    by_default = f"; by default {declaration.default_text}" if declaration.default_text else ""
    text = f"{declaration.help[0].lower()}{declaration.help[1:-1]}{by_default}".replace("`", "").replace("%", "%%")
    if declaration.default not in (None, REQUIRED):
        given = {"type": partial(_checked, declaration), "default": declaration.default, **given}
    command.add_argument(f"--{declaration.name.replace('_', '-')}", help=text, **given)


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


def storage_options() -> tuple[str, ...]:
    """Return the options of all storages."""
    return tuple(dict.fromkeys(name for storage in STORAGES for name in storage_class(storage).options))


def flag(name: str) -> str:
    """Return an option as it is written."""
    return f"--{name.replace('_', '-')}"


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
        raise ConfigurationError(f"--storage {given.storage} needs more options: pass {names}.")
    return storage.of_options(options)
