"""`airflow chs3 …`: the commands as Airflow's own command line has them, from 3.2 on."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand

from airflow_provider_chs3.cli.arguments import parser
from airflow_provider_chs3.cli.main import leave, perform


def get_commands() -> list[CLICommand]:
    """Return the group `chs3` with all commands."""
    about = "Check what loads from S3 into ClickHouse depend on, and maintain their records"
    return [GroupCommand(name="chs3", help=about, subcommands=tuple(_commands()))]


def _commands() -> Iterator[ActionCommand]:
    (choices,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    for name, command in choices.choices.items():
        arguments = tuple(_argument(action) for action in command._actions if action.dest != "help")
        yield ActionCommand(
            name=name,
            help=command.description or "",
            func=_performed_as(name),
            args=arguments,
            epilog=command.epilog,
        )


def _argument(action: argparse.Action) -> Arg:
    common = {"flags": tuple(action.option_strings), "help": action.help, "dest": action.dest}
    if isinstance(action, argparse._StoreTrueAction):
        return Arg(**common, action="store_true")
    return Arg(
        **common,
        action="append" if isinstance(action, argparse._AppendAction) else "store",
        nargs=action.nargs,
        default=action.default,
        type=action.type or str,
        choices=action.choices,
        required=action.required,
        metavar=action.metavar,
    )


def _performed_as(name: str) -> Callable[[argparse.Namespace], None]:
    def run(given: argparse.Namespace) -> None:
        # As `airflow connections` does: without it, connections of the database are not found.
        os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
        given.command = name
        leave(perform(given))

    return run
