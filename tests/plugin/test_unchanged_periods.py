"""Many periods on the page: those that the servers find unchanged are summed up, and no other is missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.plugin.observation import unchanged_periods
from tests.plugin.fixture_types import AsUser, Open
from tests.plugin.period_loads import TASK, load_table
from tests.support.browsing import PAGE, keep
from tests.support.lake import Lake

if TYPE_CHECKING:
    from playwright.sync_api import Route


DAYS = [str(date(2026, 6, 1) + timedelta(days=number)) for number in range(24)]
MISSING, UNKNOWN = DAYS[10], "2026-05-25"
#: Each has a state of its own, long before the newest.
FAILED, CHANGED, DROPPED = DAYS[2:5]


@pytest.fixture
def events(lake: Lake) -> Lake:
    """A table by day, with what happens to days."""
    loaded = {day: f"{day} 00:00:00,{number}\n{day} 01:00:00,1\n" for number, day in enumerate(DAYS) if day != MISSING}
    load_table(lake, "events", "toYYYYMMDD(at)", "{YYYY-MM-DD}", loaded)
    name = f"{lake.database}.events"
    lake.put(f"events/{FAILED}/b.csv", b"neither,nor\n")
    options = {"key": "events/{YYYY-MM-DD}/*.csv", "table": "events", "columns": ["at", "n"], "file_format": "CSV"}
    with pytest.raises((AirflowFailException, Chs3Error)):
        lake.operator(period=FAILED, **options).execute({"ti": TASK})
    lake.on_node(0, f"INSERT INTO {name} VALUES ('{UNKNOWN} 00:00:00', 1)")
    lake.on_node(0, f"INSERT INTO {name} VALUES ('{CHANGED} 00:00:00', 1)")
    lake.on_every_node(f"ALTER TABLE {name} DROP PARTITION ID '{DROPPED.replace('-', '')}'")
    return lake


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Has no more than five days read whatever their state."""

    def shown() -> None:
        monkeypatch.setattr(unchanged_periods, "_NEWEST", 0)
        monkeypatch.setattr(unchanged_periods, "_LEAST_OF_TABLE", 5)
        monkeypatch.setattr(unchanged_periods, "_FIRST_OF_TABLE", 5)

    return shown


def answer(as_user: AsUser, **query: str) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """The days of the table, what is told of the others, and the axis."""
    found = as_user("viewer").get("/chs3/api/periods", params=query).raise_for_status().json()
    (connection,) = found["connections"]
    (table,) = connection["tables"]
    return {each["period"]: each for each in table["periods"]}, table["unread"], connection["axis"]


def assert_none_is_missed(as_user: AsUser, few: Callable[[], None]) -> None:
    every, nothing, axis = answer(as_user)
    assert set(axis) == every.keys() - {
        MISSING,
        *(day for day, each in every.items() if each["state"] == "never_loaded"),
    }
    assert nothing["published"] == 0
    states = {day: every[day]["state"] for day in (FAILED, CHANGED, DROPPED, UNKNOWN, MISSING)}
    changed = dict.fromkeys((CHANGED, DROPPED, UNKNOWN), "changed")
    assert states == {FAILED: "failed", MISSING: "never_loaded", **changed}
    few()
    shown, unread, same_axis = answer(as_user)
    calm = ("published", "never_loaded")
    assert shown == {day: each for day, each in every.items() if each["state"] not in calm or day in DAYS[-5:]}
    assert same_axis == axis
    counts = Counter(each["state"] for each in shown.values())
    counts += Counter({name: unread[name] for name in calm})
    assert counts == Counter(each["state"] for each in every.values())
    rows = [sum(each["rows"] for each in found.values()) for found in (every, shown)]
    assert (rows[0], unread["newest"]) == (rows[1] + unread["rows"], DAYS[-6])
    earlier, _, _ = answer(as_user, until=DAYS[12])
    window = DAYS[7:13]
    assert {day: each for day, each in earlier.items() if each["state"] in calm} == {day: every[day] for day in window}


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_the_same_on_three_nodes(as_user: AsUser, events: Lake, few: Callable[[], None]) -> None:
    assert_none_is_missed(as_user, few)


def connections(as_user: AsUser, **query: str) -> list[dict[str, Any]]:
    found = as_user("viewer").get("/chs3/api/periods", params=query).raise_for_status().json()["connections"]
    # When it looked is another time.
    return [each | {"seen_at": None} for each in found]


def test_all_that_needs_attention_is_read_of_many_periods_and_first_the_newest_recorded_ones(
    as_user: AsUser, events: Lake, few: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = {*DAYS[2:]} - {MISSING}
    (whole,) = connections(as_user)
    assert connections(as_user, quick="true") == [whole]
    least = unchanged_periods._LEAST_OF_TABLE
    assert_none_is_missed(as_user, few)
    monkeypatch.setattr(unchanged_periods, "_LEAST_OF_TABLE", least)
    monkeypatch.setattr(unchanged_periods, "_NEWEST", 0)
    monkeypatch.setattr(unchanged_periods, "_FIRST_OF_TABLE", len(newest))
    # The rest of a set takes a look at all parts, and the fate of a table one at all tables.
    by_pair = {day: f"{day} 00:00:00,1\n" for day in DAYS[:2]}
    load_table(events, "sets", "(toYYYYMMDD(at), n)", "{YYYY-MM-DD}", by_pair)
    load_table(events, "gone", "toYYYYMMDD(at)", "{YYYY-MM-DD}", by_pair)
    events.on_every_node(f"DROP TABLE {events.database}.gone SYNC")
    (quick,) = connections(as_user, quick="true")
    (table,) = whole["tables"]
    shown = [each for each in table["periods"] if each["period"] in newest]
    nothing = {"published": 0, "newest": "", "never_loaded": 0, "rows": 0, "published_at": "", "dag_ids": []}
    assert quick == whole | {
        "tables": [table | {"periods": shown, "unread": nothing}],
        "axis": sorted(newest),
        "are_some": True,
    }


@pytest.mark.thorough
def test_after_a_mutation_which_all_parts_count_all_are_judged(
    as_user: AsUser, events: Lake, few: Callable[[], None]
) -> None:
    few()
    name, day = f"{events.database}.events", DAYS[9]
    delete = f"DELETE IN PARTITION ID '{day.replace('-', '')}' WHERE n = 1"
    events.on_every_node(f"ALTER TABLE {name} {delete} SETTINGS mutations_sync = 1")
    shown, unread, _ = answer(as_user)
    changed = {day for day, each in shown.items() if each["state"] == "changed"}
    assert (changed, unread["published"]) == ({CHANGED, DROPPED, UNKNOWN, day}, 0)
    assert Counter(each["state"] for each in shown.values())["published"] == 19


@pytest.mark.thorough
def test_all_periods_of_a_run_are_read(
    as_user: AsUser, airflow_api: Any, events: Lake, few: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_api.state.auth_manager, "get_authorized_dag_ids", lambda **_: {TASK.dag_id, "other"})
    few()
    other = SimpleNamespace(**vars(TASK) | {"dag_id": "other"})
    options = {"key": "events/{YYYY-MM-DD}/*.csv", "table": "events", "columns": ["at", "n"], "file_format": "CSV"}
    events.put(f"events/{DAYS[8]}/b.csv", f"{DAYS[8]} 00:00:00,7\n".encode())
    events.operator(period=DAYS[8], **options).execute({"ti": other})
    assert [*answer(as_user, dag_id="other")[0]] == [DAYS[8]]
    others = {day for day in DAYS if day not in (MISSING, DAYS[8])}
    assert answer(as_user, dag_id=TASK.dag_id)[0].keys() == others
    assert answer(as_user)[1]["dag_ids"] == [TASK.dag_id, "other"]


@pytest.mark.thorough
def test_earlier_periods_are_asked_for_when_somebody_looks_at_them(
    events: Lake, few: Callable[[], None], open_page: Open
) -> None:
    few()
    page, troubles = open_page("/", viewport={"width": 500, "height": 800})
    held: list[Route] = []
    page.route(lambda url: url.endswith("/chs3/api/periods?"), lambda route: held.append(route))
    page.goto(page.url.rstrip("/") + PAGE)
    strip = page.get_by_role("toolbar", name=f"Periods of {events.database}.events")
    strip.get_by_role("button", name=f"{DAYS[-1]}: published").wait_for()
    # Periods that are not read yet are not counted.
    page.get_by_role("status").get_by_text("The others are being read").wait_for()
    states = page.get_by_role("group", name="States")
    assert (states.count(), page.get_by_text("No period needs attention").count()) == (0, 0)
    held.pop().continue_()
    page.unroute_all()
    states.get_by_role("button", name="20 published").wait_for()
    page.get_by_role("button", name="Earlier periods").click()
    strip.get_by_role("button", name=f"{DAYS[6]}: published").wait_for()
    keep(page, "many-days")
    where = f"conn_id=chs3_default&database={events.database}&table=events&period={DAYS[14]}"
    page.goto(f"{page.url.split('?')[0]}?{where}")
    page.get_by_role("dialog", name=f"{events.database}.events {DAYS[14]}").wait_for()
    assert troubles == []
