"""The arguments of the command line."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from typing import Any

from airflow_provider_chs3.core.doctor.privileges import PURPOSES
from airflow_provider_chs3.core.values.models import Month
from airflow_provider_chs3.exceptions import ConfigurationError

_ABOUT = """Check what loads depend on, and maintain what they record, from the shell. Connections are Airflow's, by
their ids, from its database, its secrets backend or AIRFLOW_CONN_<ID>; no secret stands on the command line. Results go
to stdout, everything else to stderr."""

_EXIT_CODES = """exit codes:
  0  all is as it should be: every month as published, nothing to load, all adopted, nothing left to clean, no finding;
     and where a calibration is done, whatever it found
  1  it is not: months to load (plan), not as published (ledger), refused (adopt), staging to drop (clean --dry-run),
     findings (doctor), or rows that are not the objects' (rehearse)
  2  wrong arguments, or an error; stderr says which
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m airflow_provider_chs3",
        description=_ABOUT,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    _add_ledger(commands)
    _add_plan(commands)
    _add_adopt(commands)
    _add_forget(commands)
    _add_clean(commands)
    _add_doctor(commands)
    _add_calibrate(commands)
    _add_rehearse(commands)
    return parser


def months_of(given: argparse.Namespace) -> tuple[str, ...]:
    """Return the months named on the command line; none if it names none.

    Raises:
        ConfigurationError: If one is no month, or a range has no beginning.
    """
    months = {Month.parse(text) for text in given.month or ()}
    if given.first or given.last:
        if not (given.first and given.last):
            raise ConfigurationError("Give both --from and --to, such as --from 2026-01 --to 2026-12.")
        month, last = Month.parse(given.first), Month.parse(given.last)
        if last < month:
            raise ConfigurationError(f"--from {month} is after --to {last}: give the first month, then the last.")
        while month <= last:
            months.add(month)
            month = month.shifted(1)
    return tuple(str(month) for month in sorted(months))


def _add_ledger(commands: Any) -> None:
    command = _command(commands, "ledger", "list what is published of a table, and where each month stands")
    _add_table(command)
    _add_months(command, all_months=None)
    command.add_argument("--objects", action="store_true", help="the objects that were loaded, when, and by which load")


def _add_plan(commands: Any) -> None:
    command = _command(commands, "plan", "which months would be loaded, and why; nothing is written")
    _add_table(command)
    _add_source(command)
    _add_months(command, all_months="all that are in the bucket")
    _add_definition(command, "a change of it is a reason to load; not compared unless given")


def _add_adopt(commands: Any) -> None:
    command = _command(
        commands,
        "adopt",
        "take months that were loaded by other means for published, if they have as many rows as their objects",
    )
    _add_table(command)
    _add_source(command)
    _add_months(command, all_months="all that are in the bucket")
    _add_definition(command, "{} unless given")


def _add_forget(commands: Any) -> None:
    command = _command(commands, "forget", "take months out of the ledger; their rows stay")
    _add_table(command)
    _add_months(command, all_months="all that the ledger knows")


def _add_clean(commands: Any) -> None:
    command = _command(commands, "clean", "drop the staging that dead loads left, and end their queries")
    command.add_argument("--database", help="of staging and ledger; the connection's by default")
    command.add_argument("--cluster", help="the connection's by default")
    command.add_argument(
        "--older-than-hours",
        type=_hours,
        default=24,
        metavar="HOURS",
        help="leave younger staging alone: give more than the longest load takes (%(default)s)",
    )
    command.add_argument("--dry-run", action="store_true", help="only tell what would be dropped")


def _add_doctor(commands: Any) -> None:
    command = _command(
        commands, "doctor", "check everything that loads depend on, and say what is wrong; nothing is written"
    )
    _add_table(command, is_required=False)
    _add_source(command, is_required=False)
    command.add_argument("--month", metavar="YYYY-MM", help="rehearse a load of this month, up to its first write")
    command.add_argument(
        "--for",
        dest="purposes",
        action="append",
        choices=list(PURPOSES),
        metavar="PURPOSE",
        help=f"what the connection's user must have the rights for: {', '.join(PURPOSES)}; may be repeated (load)",
    )


def _add_calibrate(commands: Any) -> None:
    about = "load samples of a month into throw-away tables, and keep the best settings for the table's loads"
    command = _command(commands, "calibrate", about)
    _add_table(command)
    _add_source(command)
    command.add_argument("--month", required=True, metavar="YYYY-MM", help="whose files are the sample")
    command.add_argument(
        "--budget-seconds", type=float, default=300, metavar="SECONDS", help="what all tries may take (%(default)s)"
    )
    command.add_argument(
        "--least-try-seconds",
        type=float,
        default=1,
        metavar="SECONDS",
        help="a sample that loads in less tells nothing (%(default)s)",
    )


def _add_rehearse(commands: Any) -> None:
    command = _command(
        commands, "rehearse", "prove on these servers that months are exact, with small objects and a table of its own"
    )
    command.add_argument("--database", required=True, help="where its table and staging are made, and dropped again")
    command.add_argument("--bucket", required=True, help="where its objects are written, and deleted again")
    command.add_argument("--prefix", required=True, help="beginning of their keys; nothing may be there yet")
    command.add_argument(
        "--like", metavar="DATABASE.TABLE", help="the table whose replicas, disks and settings it has; else MergeTree"
    )
    command.add_argument(
        "--staging-database", metavar="DATABASE", help="of the loads of --like, if not its own: the ledger is there"
    )
    command.add_argument("--cluster", help="the connection's by default, else one server")
    command.add_argument("--clean", action="store_true", help="instead: remove what rehearsals left that were killed")
    _add_access(command)


def _command(commands: Any, name: str, about: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--conn-id", default="chs3_default", help="connection of type chs3 (%(default)s)")
    command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    command.add_argument("--verbose", action="store_true", help="tell every step on stderr")
    return command


def _add_table(command: argparse.ArgumentParser, *, is_required: bool = True) -> None:
    command.add_argument(
        "--table", required=is_required, help="the local table, or a Distributed one: [DATABASE.]TABLE"
    )
    command.add_argument("--database", help="the table's; the connection's by default")
    command.add_argument("--cluster", help="the Distributed table's by default, else the connection's, else one server")
    command.add_argument("--staging-database", metavar="DATABASE", help="of the ledger; the table's by default")


def _add_source(command: argparse.ArgumentParser, *, is_required: bool = True) -> None:
    command.add_argument("--key", required=is_required, help="template of the keys, such as trips/{YYYY-MM}/*.parquet")
    command.add_argument("--bucket", help="where the objects are")
    _add_access(command)


def _add_access(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--aws-conn-id", default="aws_default", help="AWS connection; empty for a public bucket (%(default)s)"
    )
    command.add_argument("--named-collection", metavar="NAME", help="what opens the bucket for the servers instead")
    command.add_argument("--role-arn", metavar="ARN", help="a role that the servers may assume instead")
    command.add_argument("--endpoint-url", metavar="URL", help="the storage as the servers reach it")


def _add_months(command: argparse.ArgumentParser, *, all_months: str | None) -> None:
    command.add_argument("--month", action="append", metavar="YYYY-MM", help="a month; may be repeated")
    command.add_argument("--from", dest="first", metavar="YYYY-MM", help="the first of several months, with --to")
    command.add_argument("--to", dest="last", metavar="YYYY-MM", help="the last of them")
    if all_months:
        command.add_argument("--all-months", action="store_true", help=all_months)


def _add_definition(command: argparse.ArgumentParser, default: str) -> None:
    command.add_argument(
        "--definition",
        type=_json_object,
        metavar="JSON",
        help=f'what loads are told to make of the objects, such as {{"columns": ["a", "b"]}}; {default}',
    )


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = math.nan
    if not 0 <= hours < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours: give 0 or more, such as 24 or 0.5")
    return hours


def _json_object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError('give a JSON object, such as {"on_other_months": "leave_out"}')
    return found
