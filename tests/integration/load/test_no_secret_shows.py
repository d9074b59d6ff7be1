"""No key, session token or password shows anywhere, however a load ends: everything that can be read is searched."""

from __future__ import annotations

import json
import logging
import re
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.load import retry_policy
from airflow_provider_chs3.exceptions import ClickHouseServerError
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.sources.s3.listing import S3Listing
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from airflow_provider_chs3.testbed.trips import Trips
from tests.support import deferring
from tests.support.lake import IS_OLDEST, Lake
from tests.support.narrow_user import NARROW, WITH_NARROW_USER, narrow_connection
from tests.support.secret_texts import found_in
from tests.support.slow import wait_for_insert
from tests.support.temporary_keys import ALL, LIST_ONLY, TemporaryKeys

pytestmark = pytest.mark.three_nodes

TRIPS = Trips(rows_per_period=900, files_per_period=3)
WRONG = {"secret_key": "wr0ng/secret+key/of/forty/characters/AAAA", "session_token": "wr0ngT0kenOfNoSession" * 8}
WRONG_PASSWORD = "wr0ng'p\\ssword"
#: Each node's log file holds what text_log would.
SYSTEM_LOGS = ("query_log", "query_thread_log", "part_log")
#: Makes the insert take a minute or so.
SLOW = {
    "select": {"pickup_at": "pickup_at", "trip_id": "trip_id + sleepEachRow(0.02)"},
    "settings": {"function_sleep_max_microseconds_per_block": 100_000_000_000, "max_block_size": 20},
}


@pytest.fixture(scope="module")
def chs3_cluster(chs3_s3: S3Endpoint) -> Iterator[ClickHouseCluster]:
    """Nodes that write all logs, at their most talkative."""
    logs = {name: {"database": "system", "table": name, "flush_interval_milliseconds": 1000} for name in SYSTEM_LOGS}
    with ClickHouseCluster.start(
        2,
        named_collections={S3_NAMED_COLLECTION: chs3_s3.named_collection()},
        server_settings={"log-level": "trace", **logs},
        **WITH_NARROW_USER,
    ) as cluster:
        yield cluster


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and all that it came from, hidden contexts too."""
    seen: list[BaseException | None] = [error]
    for each in seen:
        if each is not None:
            seen += [cause for cause in (each.__cause__, each.__context__) if cause not in seen]
            yield each


def text_of(error: BaseException | None) -> str:
    return "\n".join(
        f"{each}\n{each!r}\n{each.args!r}\n{vars(each)!r}\n{''.join(traceback.format_exception(each))}"
        for each in chain(error)
    )


def text_of_objects(operator: Any) -> str:
    """Return an operator's parts as they look where somebody prints them."""
    listing = S3Listing(operator.aws_conn_id)
    source = operator.store.source(listing)
    request = operator._ask({}, listing, resumes=None)
    rendered = {name: getattr(operator, name) for name in operator.template_fields}
    hook = operator.hook()
    parts = (operator, vars(operator), rendered, listing, source, source.credentials, request, hook, hook.options)
    return "\n".join(f"{part}\n{part!r}" for part in parts)


def text_of_servers(lake: Lake) -> str:
    """All that the nodes wrote into logs, tables and files, and what runs on them."""
    lake.on_every_node("SYSTEM FLUSH LOGS")
    records = (f"{lake.database}.chs3_{name}" for name in ("ledger", "loads", "objects"))
    tables = [*(f"system.{name}" for name in (*SYSTEM_LOGS, "errors", "processes")), *records]
    texts = []
    for name in tables:
        for number, exists in enumerate(lake.on_every_node(f"EXISTS {name}")):
            # A load that stopped early has made no ledger, or one on the first node alone.
            if exists == [(1,)]:
                texts += [str(row) for row in lake.on_node(number, f"SELECT * FROM {name}")]
    for node in lake.cluster.nodes:
        assert node.folder is not None
        texts += [(node.folder / log).read_text(errors="replace") for log in ("clickhouse.log", "engine.log")]
    return "\n".join(texts)


@dataclass(frozen=True)
class Ending:
    """A way in which a load can end."""

    match: str | None
    options: dict[str, Any] = field(default_factory=dict)
    aws: dict[str, str] = field(default_factory=dict)
    actions: tuple[str, ...] = ALL
    password: str = NARROW.password


DEFERRABLE = {"deferrable": True}
ENDINGS = {
    "published": Ending(None),
    "the secret key is wrong": Ending("the secret key is wrong", aws={"secret_key": WRONG["secret_key"]}),
    "the token is unknown": Ending("session token", aws={"session_token": WRONG["session_token"]}),
    "the servers get a 403": Ending("refused the servers' keys", actions=LIST_ONLY),
    "the servers find no storage": Ending("Connection refused", {"endpoint_url": "http://127.0.0.1:1"}),
    "a column is missing": Ending("no_such_column", {"columns": ["no_such_column"]}),
    "an expression cannot be parsed": Ending("is not an expression", {"select": {"trip_id": "(trip_id"}}),
    "a value does not fit": Ending("does not fit|trip_id", {"select": {"trip_id": "-1 - toInt64(trip_id % 2)"}}),
    "a setting's value is wrong": Ending("many", {"settings": {"max_threads": "many"}}),
    "a setting would not let it be parsed": Ending("cannot be changed", {"settings": {"max_parser_depth": 5}}),
    "the password is wrong": Ending("516", password=WRONG_PASSWORD),
    "published by a deferrable load": Ending(None, DEFERRABLE),
    "a deferrable load gets a 403": Ending("refused the servers' keys", DEFERRABLE, actions=LIST_ONLY),
    "a deferrable load has the wrong password": Ending("516", DEFERRABLE, password=WRONG_PASSWORD),
}


@dataclass
class Secrets:
    """The secrets of a test, and loads that use them."""

    lake: Lake
    keys: TemporaryKeys
    monkeypatch: pytest.MonkeyPatch

    def all(self) -> dict[str, str]:
        held = {"secret key": self.keys.secret_key}
        if not IS_OLDEST:
            # It is useless without the secret key; 25.8 does not hide it.
            held["session token"] = self.keys.session_token
        return {**held, **WRONG, "password": NARROW.password, "wrong password": WRONG_PASSWORD}

    def found_in(self, shown: dict[str, str]) -> dict[str, list[str]]:
        """Place → the secrets that it shows."""
        found = {place: found_in(text, self.all()) for place, text in shown.items()}
        return {place: secrets for place, secrets in found.items() if secrets}

    def connect(self, ending: Ending) -> None:
        clickhouse = {**narrow_connection(self.lake.cluster), "password": ending.password}
        self.monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(clickhouse))
        self.monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", self.keys.airflow_connection(**ending.aws))


@pytest.fixture
def make_secrets(
    trips_lake: Lake, chs3_s3: S3Endpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Callable[[Ending], Secrets]:
    def make(ending: Ending) -> Secrets:
        trips_lake.upload(TRIPS)
        secrets = Secrets(trips_lake, TemporaryKeys.of(chs3_s3, actions=ending.actions), monkeypatch)
        secrets.connect(ending)
        monkeypatch.setattr(retry_policy, "WAIT_SECONDS", 0)
        caplog.clear()
        caplog.set_level(logging.DEBUG)
        return secrets

    return make


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_however_a_load_ends(
    make_secrets: Callable[[Ending], Secrets],
    ending: Ending,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    secrets = make_secrets(ending)
    capfd.readouterr()
    operator = secrets.lake.operator(**ending.options)
    result: Any = None
    error: Exception | None = None
    try:
        result = operator.execute({})
    except Exception as raised:
        error = raised
    shown = {
        "logs": caplog.text + "".join(capfd.readouterr()),
        "XCom": json.dumps(result),
        "errors": text_of(error),
        "objects": text_of_objects(operator),
        "servers": text_of_servers(secrets.lake),
    }
    assert re.search(ending.match or "^$", str(error or "")), error
    assert secrets.found_in(shown) == {}


def test_while_a_load_runs_and_when_somebody_kills_it_and_the_keys_id_does(
    make_secrets: Callable[[Ending], Secrets], caplog: pytest.LogCaptureFixture
) -> None:
    secrets = make_secrets(Ending("Somebody ended the query"))
    lake = secrets.lake
    with ThreadPoolExecutor() as pool:
        load = pool.submit(lake.operator(**SLOW).execute, {})
        wait_for_insert(lake)
        processes = str(lake.on_every_node("SELECT * FROM system.processes"))
        lake.on_node(0, "KILL QUERY WHERE endsWith(query_id, '_insert1') ASYNC")
        error = load.exception(timeout=300)
    assert "Somebody ended the query" in str(error)
    assert "s3Cluster" in processes
    shown = {"logs": caplog.text, "errors": text_of(error), "processes": processes, "servers": text_of_servers(lake)}
    assert secrets.found_in(shown) == {}
    if not IS_OLDEST:  # which has no mask for session tokens
        assert f"'{secrets.keys.access_key_id}', '[HIDDEN]', '[HIDDEN]'" in shown["servers"]


@pytest.mark.thorough
def test_while_a_load_is_deferred_and_when_its_insert_turns_out_to_have_failed(
    make_secrets: Callable[[Ending], Secrets], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = make_secrets(Ending("Somebody ended the query"))
    lake = secrets.lake
    deferring.hurry(monkeypatch)
    deferred = deferring.start(lake, **SLOW)
    trigger = f"{deferred.trigger!r} {deferred.trigger.serialize()} {vars(deferred.trigger)} {deferred.how!r}"
    lake.on_node(0, "KILL QUERY WHERE endsWith(query_id, '_insert1') ASYNC")
    event = deferred.wait()
    with pytest.raises(AirflowFailException, match="Somebody ended the query") as failed:
        deferred.resume(event)
    shown = {
        "logs": caplog.text,
        "errors": text_of(failed.value),
        "trigger": trigger,
        "event": json.dumps(event),
        "servers": text_of_servers(lake),
    }
    assert secrets.found_in(shown) == {}


@pytest.mark.thorough
def test_with_a_named_collection_not_even_the_keys_id_shows(
    trips_lake: Lake, chs3_s3: S3Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    trips_lake.upload(TRIPS)
    caplog.set_level(logging.DEBUG)
    key = f"{trips_lake.bucket}/trips/{{YYYY-MM}}/"
    trips_lake.load(named_collection=S3_NAMED_COLLECTION, bucket=None, key=key, aws_conn_id=None)
    servers = text_of_servers(trips_lake)
    keys = {"secret key": chs3_s3.secret_key, "key id": chs3_s3.access_key}
    assert S3_NAMED_COLLECTION in servers
    assert found_in(servers + caplog.text, keys) == []


@pytest.mark.thorough
def test_in_what_the_driver_raised_about_a_statement_that_servers_cannot_parse(
    chs3_airflow_connections: None,
) -> None:
    secret = "s3cret/of+forty/characters/AAAAAAAAAAAAA"
    with pytest.raises(ClickHouseServerError, match="Syntax error") as failed:
        ClickHouseHook().query(f"SELECT ( FROM s3('http://storage/file', 'key', '{secret}')", secrets=[secret])
    assert found_in(text_of(failed.value), {"secret": secret}) == []
