"""Unloads while others write, replace or kill what they work on."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.client.shared_objects import SharedObjects
from airflow_provider_chs3.client.unloading import Unload
from airflow_provider_chs3.core.exchange import unload_steps as steps
from airflow_provider_chs3.exceptions import TransientError
from tests.support.lake import Lake
from tests.support.unloading import MANIFEST, body, ids, ids_of_table, keys, loaded, manifest, operator, unload

__all__ = ["loaded"]

pytestmark = pytest.mark.three_nodes


def test_of_two_at_once_the_second_writes_nothing(loaded: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    swap = SharedObjects.swap

    def swap_behind_another(self: Any, *arguments: Any) -> bool:
        monkeypatch.setattr(SharedObjects, "swap", swap)
        unload(loaded)
        return swap(self, *arguments)

    monkeypatch.setattr(SharedObjects, "swap", swap_behind_another)
    with pytest.raises(TransientError, match="Another task unloaded"):
        unload(loaded)
    assert sorted(keys(loaded)) == sorted([*(each["key"] for each in manifest(loaded)["files"]), MANIFEST])
    assert ids(loaded) == ids_of_table(loaded)
    assert unload(loaded)["status"] == "unchanged"


@pytest.mark.thorough
def test_an_answer_that_got_lost_is_no_failure(loaded: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    swap = SharedObjects.swap
    monkeypatch.setattr(SharedObjects, "swap", lambda *arguments: swap(*arguments) and swap(*arguments))
    assert unload(loaded)["status"] == "unloaded"
    assert ids(loaded) == ids_of_table(loaded)


def test_a_table_that_changes_meanwhile_is_a_retry(loaded: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Unload._written

    def written_behind_a_change(self: Any, *arguments: Any) -> Any:
        name = f"{loaded.database}.{loaded.table}"
        # Not every node has rows of so few files.
        loaded.on_every_node(f"INSERT INTO {name} SELECT * FROM {name}")
        return written(self, *arguments)

    monkeypatch.setattr(Unload, "_written", written_behind_a_change)
    with pytest.raises(TransientError, match="changed while it was unloaded"):
        unload(loaded)
    assert keys(loaded) == []


@pytest.mark.thorough
def test_an_object_that_holds_something_else_is_told(loaded: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    before = unload(loaded)
    loaded.on_every_node(f"ALTER TABLE {loaded.database}.trips DELETE WHERE trip_id % 2 SETTINGS mutations_sync = 1")
    write = steps.write

    def write_and_damage(*arguments: Any) -> Any:
        yield from write(*arguments)
        new = next(key for key in keys(loaded) if key not in (MANIFEST, *before["files"]))
        loaded.put(new, body(loaded, before["files"][0]))

    monkeypatch.setattr(steps, "write", write_and_damage)
    with pytest.raises(AirflowFailException, match=r"the file, read back, holds \d+ rows, and the table has \d+"):
        unload(loaded)
    assert sorted(keys(loaded)) == sorted([*before["files"], MANIFEST])


def test_a_killed_task_ends_its_statements(loaded: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = loaded.cluster.airflow_connection()
    fields["extra"] |= {"settings": {"function_sleep_max_microseconds_per_block": 10**9}}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(fields))
    monkeypatch.setattr(steps, "_fingerprint", lambda context: "count(), toString(sum(sleepEachRow(1)))")
    task = operator(loaded)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            task.execute({})
        except AirflowFailException as error:
            errors.append(error)

    running = threading.Thread(target=run, daemon=True)
    running.start()
    while len(loaded.left_behind()) < len([rows for rows in loaded.rows_per_node() if rows]):
        assert running.is_alive()
    task.on_kill()
    running.join(timeout=300)
    assert loaded.left_behind() == []
    assert ["QUERY_WAS_CANCELLED" in str(error) for error in errors] == [True]
    assert keys(loaded) == []
