"""The command line: what is understood, and what is refused with exit code 2."""

from __future__ import annotations

import subprocess
import sys

import pytest

from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.shell.arguments import months_of, parser
from airflow_provider_chs3.shell.main import main


def months(*arguments: str) -> tuple[str, ...]:
    return months_of(parser().parse_args(["ledger", "--table", "trips", *arguments]))


def test_months_are_named_one_by_one_or_from_one_to_another() -> None:
    given = ("--month", "2026-05", "--from", "2025-11", "--to", "2026-01", "--month", "2025-12")
    assert months(*given) == ("2025-11", "2025-12", "2026-01", "2026-05")
    assert months() == ()


def test_a_beginning_without_an_end_is_told() -> None:
    with pytest.raises(ConfigurationError, match="both --from and --to"):
        months("--from", "2026-01")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["frobnicate"],
        ["ledger"],
        ["plan", "--table", "trips"],
        ["plan", "--table", "trips", "--key", "k", "--definition", "[]"],
        ["clean", "--older-than-hours", "long"],
    ],
)
def test_what_is_not_understood_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("command", ["ledger", "plan", "adopt", "forget", "clean", "doctor"])
def test_help_tells_the_exit_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert "exit codes:\n  0  " in capsys.readouterr().out


def test_no_option_takes_a_secret() -> None:
    names = parser().format_help() + "".join(
        each.format_help() for each in parser()._subparsers._group_actions[0].choices.values()
    )
    assert not {"--password", "--secret", "--token", "--secret-access-key"} & set(names.split())


def test_help_needs_no_airflow() -> None:
    code = (
        "import sys; from airflow_provider_chs3.shell.main import parser; parser().format_help(); "
        "print('airflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
