"""Engines that no test has seen, played by one that is there: loads want a rehearsal, which the ledger remembers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.cli import main as shell
from airflow_provider_chs3.cli.rehearse import MismatchError, Rehearsal
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import PERIOD, Lake

#: Exit code, stdout.
Rehearse = Callable[..., tuple[int, str]]
TRIPS = Trips(rows_per_period=300, files_per_period=3)


@pytest.fixture
def table(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A table of an engine that counts as one that nobody has tested."""
    monkeypatch.setattr("airflow_provider_chs3.core.target.table_facts._UNTESTED", ("Replacing",))
    lake.create_table(engine="ReplacingMergeTree")
    lake.upload(TRIPS)
    # The user of the other tests may not make tables of this engine.
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(lake.cluster.airflow_connection()))
    return lake


@pytest.fixture
def rehearse(table: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Rehearse:
    """Rehearses the first scenes with a table like that."""
    plays = Rehearsal._plays
    monkeypatch.setattr(Rehearsal, "_plays", lambda self: dict(itertools.islice(plays(self).items(), 2)))

    def run(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        where = ["--database", table.database, "--cluster", table.cluster.name, "--bucket", table.bucket]
        code = shell.main(["rehearse", *where, "--prefix", "rehearsals/", "--like", "trips", *arguments])
        out, err = capsys.readouterr()
        assert err == ""
        return code, out

    return run


def set_recorded(table: Lake, name: str, value: str) -> str:
    """As if the rehearsal had passed in other circumstances; it gives what was recorded."""
    ledger = f"{table.database}.chs3_ledger"
    ((recorded,),) = table.on_node(
        0, f"SELECT JSONExtractString(structure, '{name}') FROM {ledger} WHERE event = 'rehearsed'"
    )
    table.on_every_node(
        f"ALTER TABLE {ledger} UPDATE "
        f"""structure = replace(structure, '"{name}":"{recorded}"', '"{name}":"{value}"') """
        "WHERE event = 'rehearsed' SETTINGS mutations_sync = 1"
    )
    return recorded


def test_a_table_of_one_is_refused_until_a_rehearsal_has_passed(table: Lake, rehearse: Rehearse) -> None:
    with pytest.raises(AirflowFailException, match=f"rehearse --like {table.database}.trips"):
        table.load()
    assert table.rows_per_node() == [0] * len(table.cluster.nodes)
    code, out = rehearse()
    assert (code, "ReplacingMergeTree PARTITION BY" in out) == (0, True)
    assert "Every period held exactly the rows of its objects." in out
    assert f"{table.database}.chs3_ledger records the result: {table.database}.trips may be loaded until" in out
    assert table.load()["status"] == "published"
    assert table.facts() == TRIPS.facts(PERIOD)
    for name in ("version", "engine", "storage_policy"):
        as_recorded = set_recorded(table, name, "another")
        with pytest.raises(AirflowFailException, match="an engine that this package is not tested with"):
            table.load()
        set_recorded(table, name, as_recorded)
    assert table.load()["status"] == "unchanged"


@pytest.mark.thorough
def test_a_rehearsal_that_went_wrong_is_not_remembered(
    table: Lake, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(self: Rehearsal) -> int:
        raise MismatchError("rows are lacking")

    monkeypatch.setattr(Rehearsal, "_check", check)
    code, out = rehearse()
    assert (code, "records the result" in out) == (1, False)
    with pytest.raises(AirflowFailException, match="an engine that this package is not tested with"):
        table.load()
