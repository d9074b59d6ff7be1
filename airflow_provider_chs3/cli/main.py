"""The entry point of the command line."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from airflow_provider_chs3.cli.arguments import OUTPUTS, parser
from airflow_provider_chs3.cli.errors import describe_error
from airflow_provider_chs3.cli.progress import Lines

if TYPE_CHECKING:
    from airflow_provider_chs3.cli.reports import Report

FINE, NOT_AS_IT_SHOULD_BE, ERROR = 0, 1, 2
#: As shells say it of a program that Ctrl-C ended.
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the command line names, and print its result.

    Returns:
        The exit code: 0 if everything is in order, 1 if not, 2 after an error, 130 after Ctrl-C.

    Raises:
        SystemExit: With code 2 if arguments are wrong; with 0 after `--help`.
    """
    return perform(parser().parse_args(arguments))


def perform(given: argparse.Namespace) -> int:
    """Run a command, print its result, and return the exit code, as `main`."""
    stdout = sys.stdout
    is_table = given.output == OUTPUTS[0]
    # For what a command leaves behind if it ends with an error.
    given.warn = lambda line: sys.stderr.write(f"{given.command}: {line}\n")
    try:
        # Airflow logs to stdout, which is for the result alone.
        with (
            contextlib.redirect_stdout(sys.stderr if given.verbose else io.StringIO()),
            _progress_of(given, stdout if is_table else None) as given.progress,
        ):
            report = _run(given)
        text = str(report)
        stdout.write((text and f"{text}\n") if is_table else _as_airflow_prints(report.values, given.output))
        stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write(f"{given.command}: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe. On exit, Python would try to write the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
        return ERROR
    except Exception as error:
        if given.verbose:
            traceback.print_exc()
        sys.stderr.write(f"{given.command}: {describe_error(error)}\n")
        return ERROR
    if report.has_failed:
        return ERROR
    return FINE if report.is_fine else NOT_AS_IT_SHOULD_BE


def leave(code: int) -> NoReturn:
    """End the process with the exit code of a command.

    After Ctrl-C, that is at once: Python would wait for the threads that wait for servers, and these end what they run
    once the connection is closed.
    """
    if code == INTERRUPTED:
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _as_airflow_prints(values: Any, output: str) -> str:
    from airflow.cli.simple_table import AirflowConsole

    written = io.StringIO()
    getattr(AirflowConsole(file=written), f"print_as_{output}")(values)
    return f"{written.getvalue().rstrip()}\n"


@contextlib.contextmanager
def _progress_of(given: argparse.Namespace, out: TextIO | None) -> Iterator[Lines]:
    """Show the progress of a command as long as it runs."""
    if not out or given.verbose or not sys.stderr.isatty():
        yield Lines(out)
        return
    # Imports rich, which nobody needs who does not look.
    from airflow_provider_chs3.cli.bars import Bars

    with Bars.shown(out) as bars:
        yield bars


def _run(given: argparse.Namespace) -> Report:
    # Imports Airflow, which takes seconds that `--help` need not wait for.
    from airflow_provider_chs3.cli.commands import COMMANDS

    return COMMANDS[given.command](given)
