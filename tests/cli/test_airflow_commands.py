"""`airflow chs3 …` and `chs3 …`: the same commands with the same arguments."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.cli.cli_config import ActionCommand, GroupCommand
from airflow.models import Connection
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from airflow_provider_chs3.cli.airflow_commands import get_commands
from airflow_provider_chs3.cli.arguments import parser
from airflow_provider_chs3.testbed.nodes import Cluster

LINES = [
    "ledger --table t --period 2026-01 --period 2026-02 --objects --output json",
    "status --loads loads.yaml",
    "costs --days 7",
    "plan --table t --key k --from 2026-01 --to 2026-03 --role-arn r",
    "adopt --table t --key k --all-periods --aws-conn-id x",
    "prove --table t --key k --all-periods --object-column file --sample 3",
    "forget --table t --all-periods --verbose",
    "versions --table t",
    "restore --table t --period 2026-01 --version 0cae9b07d6b44939 --replace-changed",
    "unpin --table t --period 2026-01",
    "approve --table t --period 2026-01 --bucket b --key k/{YYYY-MM}/",
    "discard --table t --period 2026-01",
    "clean --older-than-hours 0.5 --dry-run",
    "doctor --table t --for load --for page",
    "rehearse --database d --bucket b --prefix p --clean",
    "ddl --table t --key k --period 2026-01 --file-format ORC",
    "plan --loads loads.yaml trips fares --all-periods",
    "doctor --dag trips_nightly --task trips",
    "schema --output yaml",
]


def of_airflow(line: str) -> argparse.Namespace:
    (group,) = get_commands()
    assert isinstance(group, GroupCommand)
    name, *arguments = line.split()
    (command,) = (subcommand for subcommand in group.subcommands if subcommand.name == name)
    assert isinstance(command, ActionCommand)
    made = argparse.ArgumentParser()
    for argument in command.args:
        argument.add_to_parser(made)
    return made.parse_args(arguments)


@pytest.mark.parametrize("line", LINES)
def test_airflow_understands_what_the_program_does(line: str) -> None:
    own = vars(parser().parse_args(line.split()))
    assert own.pop("command") == line.split()[0]
    assert vars(of_airflow(line)) == own


def test_every_command_is_tried_above() -> None:
    (group,) = get_commands()
    assert isinstance(group, GroupCommand)
    assert {subcommand.name for subcommand in group.subcommands} == {line.split()[0] for line in LINES}


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("program", [["airflow", "chs3"], ["chs3"]])
def test_a_connection_is_found_in_airflows_database_and_an_error_has_its_exit_code_and_text(
    program: list[str], airflow_db: Path, tmp_path: Path, chs3_cluster: Cluster, chs3_database: str
) -> None:
    database = f"sqlite:///{shutil.copy(airflow_db, tmp_path)}"
    connection = Connection.from_json(json.dumps(chs3_cluster.airflow_connection()), "of_the_database")
    with Session(create_engine(database)) as session, session.begin():
        session.add(connection)
    environment = {**os.environ, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database}
    found = Path(sys.executable).with_name(program[0])
    command = [found, *program[1:], "ledger", "--conn-id", "of_the_database", "--table", f"{chs3_database}.t"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Table {chs3_database}.t does not exist" in done.stderr
