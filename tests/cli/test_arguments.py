"""The command line: what is understood, and what is refused with exit code 2."""

from __future__ import annotations

import subprocess
import sys

import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException

from airflow_provider_chs3.cli.arguments import parser, periods_of
from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.exceptions import ClickHouseServerError, ConfigurationError


def periods(*arguments: str) -> tuple[str, ...]:
    return periods_of(parser().parse_args(["ledger", "--table", "trips", *arguments]))


def test_periods_are_named_one_by_one_or_from_one_to_another() -> None:
    assert periods("--period", "2026-05", "--period", "2025-12") == ("2025-12", "2026-05")
    assert periods("--from", "2025-11", "--to", "2026-01") == ("2025-11", "2025-12", "2026-01")
    assert periods() == ()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--period", "2026-05", "--from", "2025-11", "--to", "2026-01"), "name the periods in one of these ways"),
        (("--from", "2026-01", "--to", "2026-02-03"), "have one length: --from 2026-01 and --to 2026-02-03 have two"),
        (("--period", "0001-01"), "0001-01 is not within the years 1971 to 2104"),
    ],
)
def test_periods_that_cannot_be_meant_are_told(given: tuple[str, ...], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        periods(*given)


def test_a_beginning_after_the_end_is_told() -> None:
    with pytest.raises(ConfigurationError, match="--from 2026-03 is after --to 2026-01"):
        periods("--from", "2026-03", "--to", "2026-01")


@pytest.mark.parametrize("days", ["0", "-1"])
def test_costs_are_of_a_day_at_least(days: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["costs", f"--days={days}"])
    wanted = "use a whole number at least 1 and at most 3660"
    assert f"argument --days: days='{days}' is not allowed: {wanted}" in capsys.readouterr().err


@pytest.mark.parametrize("hours", ["nan", "-1", "inf", "long"])
def test_an_age_that_is_none_is_told_by_its_flag(hours: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["clean", f"--older-than-hours={hours}"])
    assert (
        f"argument --older-than-hours: older_than_hours='{hours}' is not allowed: use a number at least 0"
        in capsys.readouterr().err
    )


def test_a_beginning_without_an_end_is_told() -> None:
    with pytest.raises(ConfigurationError, match="both --from and --to"):
        periods("--from", "2026-01")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["frobnicate"],
        ["clean", "--older-than-hours", "long"],
        ["ddl", "--table", "trips", "--key", "k"],
        ["doctor", "--frobnicate", "--table", "trips", "--key", "k", "--period", "2026-01"],
        ["rehearse", "--database", "d", "--bucket", "b", "--prefix", "p", "--storage", "postgres"],
    ],
)
def test_what_is_not_understood_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("command", [["plan"], ["adopt"], ["ddl", "--period", "2026-01"]])
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ([], "for --storage s3, pass --key"),
        (["--storage", "hdfs", "--hdfs-url", "hdfs://h:1"], "for --storage hdfs, pass --key, or"),
        (["--storage", "iceberg"], "for --storage iceberg, pass --source-table and --time-column, or"),
        (
            ["--storage", "delta", "--source-table", "s3://b/t", "--time-column", "m", "--key", "k"],
            "--key: --storage delta",
        ),
        (["--key", "k", "--source-table", "t"], "--source-table: --storage s3 does not take this."),
    ],
)
def test_a_source_that_is_not_named_as_its_storage_wants_is_told(
    command: list[str], source: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--table", "trips", *source]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["ledger", "plan", "adopt", "forget", "clean", "doctor", "rehearse"])
def test_help_tells_the_exit_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    shown = capsys.readouterr().out
    assert [shown.count(f"\n  {code}  ") for code in (0, 1, 2)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ClickHouseServerError(497, "ACCESS_DENIED", "no", "ch:9000"),
            "from ch:9000: no. The user is unknown, or lacks a privilege: see docs/privileges.md.",
        ),
        (
            AirflowNotFoundException("The conn_id `chs3_default` isn't defined"),
            "isn't defined: create this connection in Airflow (docs/reference/connection.md), or name another one.",
        ),
        (AssertionError(), "ledger: AssertionError"),
    ],
)
def test_an_error_is_told_with_the_way_out_and_never_without_a_word(
    error: Exception, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(given: object) -> None:
        raise error

    monkeypatch.setattr("airflow_provider_chs3.cli.main._run", fail)
    assert main(["ledger", "--table", "trips"]) == 2
    assert capsys.readouterr().err.endswith(f"{said}\n")


_PLAN = ["plan", "--table", "trips", "--key", "trips/{YYYY-MM}/", "--all-periods"]
_REHEARSE = ["rehearse", "--database", "scratch", "--prefix", "rehearsals/"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([*_PLAN, "--bucket", "lake", "--hdfs-url", "hdfs://nn"], "--hdfs-url: --storage s3 does not take this."),
        ([*_PLAN, "--storage-conn-id", "lake"], "--storage-conn-id: --storage s3 does not take this."),
        ([*_PLAN, "--storage", "azure", "--role-arn", "r"], "--role-arn: --storage azure does not take this."),
        (
            [*_PLAN, "--storage", "hdfs"],
            "Nothing says where the objects are: for --storage hdfs, pass --hdfs-url, or name their load by --dag or "
            "--loads.",
        ),
        ([*_REHEARSE], "A rehearsal writes objects: pass their bucket or container as --bucket."),
        ([*_REHEARSE, "--storage", "gcs"], "A rehearsal writes objects: pass their bucket or container as --bucket."),
        (
            [*_REHEARSE, "--storage", "hdfs", "--hdfs-url", "hdfs://nn", "--bucket", "lake"],
            "--bucket: --storage hdfs does not take this.",
        ),
    ],
)
def test_options_of_another_storage_are_refused(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", '{"conn_type": "chs3", "host": "127.0.0.1", "port": 1}')
    assert main(given) == 2
    assert capsys.readouterr().err == f"{given[0]}: {said}\n"


def test_no_option_takes_a_secret() -> None:
    names = parser().format_help() + "".join(
        choice.format_help() for choice in parser()._subparsers._group_actions[0].choices.values()
    )
    assert not {"--password", "--secret", "--token", "--secret-access-key"} & set(names.split())


def test_help_needs_no_airflow() -> None:
    code = (
        "import sys; from airflow_provider_chs3.cli.main import parser; parser().format_help(); "
        "print('airflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_task_needs_its_dag(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["plan", "--task", "t", "--table", "t", "--key", "k", "--period", "2026-01"])
    assert (code, "--task is a task of a DAG: pass --dag, too." in capsys.readouterr().err) == (2, True)
