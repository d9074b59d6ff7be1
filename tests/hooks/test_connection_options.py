"""The fields of a connection of type chs3, and how wrong ones are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import BaseHook, Connection

from airflow_provider_chs3.client.connection import ConnectionOptions, parse_memory
from airflow_provider_chs3.exceptions import ConfigurationError


def options(extra: dict[str, Any] | None = None, **fields: Any) -> ConnectionOptions:
    connection = Connection(
        conn_id="ch", conn_type="chs3", **({"host": "ch-1"} | fields), extra=json.dumps(extra) if extra else None
    )
    return ConnectionOptions.from_airflow(connection)


def refusal(extra: dict[str, Any] | None = None, **fields: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        options(extra, **fields)
    return str(caught.value)


def test_a_host_is_enough() -> None:
    assert options() == ConnectionOptions(hosts=(("ch-1", 9000),))


def test_standard_fields_are_taken_over() -> None:
    given = options(login="loader", password="pw", schema="trips", port=9001)
    assert (given.user, given.password, given.database, given.hosts) == ("loader", "pw", "trips", (("ch-1", 9001),))


def test_tls_moves_the_native_port() -> None:
    assert options({"secure": True}).hosts == (("ch-1", 9440),)


def test_tls_moves_the_http_port() -> None:
    assert options({"secure": True}).http_port == 8443


def test_a_given_port_stays_with_tls() -> None:
    assert options({"secure": True, "http_port": 1}, port=2).hosts == (("ch-1", 2),)


def test_the_host_may_hold_the_port() -> None:
    assert options(host="ch-1:9001").hosts == (("ch-1", 9001),)


def test_further_hosts_inherit_the_port() -> None:
    hosts = options({"alt_hosts": "ch-2, ch-3:9003"}, port=9001).hosts
    assert hosts == (("ch-1", 9001), ("ch-2", 9001), ("ch-3", 9003))


def test_further_hosts_may_be_a_list() -> None:
    assert options({"alt_hosts": ["ch-2", "[::1]:9003"]}).hosts[1:] == (("ch-2", 9000), ("::1", 9003))


def test_fields_that_the_form_leaves_empty_count_as_not_given() -> None:
    empty = {"alt_hosts": "", "http_port": None, "secure": None, "compression": None, "settings": None, "cluster": ""}
    assert options(empty) == options()


def test_a_uri_whose_values_are_all_text_means_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = (
        "chs3://loader:pw@ch-1:9440/trips?secure=true&verify=0&http_port=8444&compression=none"
        "&connect_timeout_seconds=2.5&settings=%7B%22max_threads%22%3A4%7D"
    )
    monkeypatch.setenv("AIRFLOW_CONN_BY_URI", uri)
    assert ConnectionOptions.from_airflow(BaseHook.get_connection("by_uri")) == ConnectionOptions(
        hosts=(("ch-1", 9440),),
        user="loader",
        password="pw",
        database="trips",
        secure=True,
        verify=False,
        http_port=8444,
        compression="none",
        connect_timeout_seconds=2.5,
        settings={"max_threads": 4},
    )


def test_node_addresses_are_found_by_host_and_port_first() -> None:
    given = options({"node_addresses": {"node:9000": "10.0.0.1:19000", "node": "10.0.0.2"}})
    assert given.worker_address("node", 9000) == ("10.0.0.1", 19000)


def test_node_addresses_are_found_by_host() -> None:
    given = options({"node_addresses": {"node": "10.0.0.2"}})
    assert given.worker_address("node", 9001) == ("10.0.0.2", 9000)


def test_a_node_without_an_address_of_its_own_is_reached_as_the_cluster_does() -> None:
    assert options().worker_address("node", 9001) == ("node", 9001)


def test_node_specs_give_cores_and_bytes() -> None:
    specs = options({"node_specs": {"default": {"cores": 8, "memory": "32GiB"}}}).node_specs
    assert {name: (spec.cores, spec.memory_bytes) for name, spec in specs.items()} == {"default": (8, 32 * 1024**3)}


@pytest.mark.parametrize(
    ("text", "expected_bytes"),
    [(5, 5), ("5", 5), ("1.5 GiB", 1610612736), ("2gb", 2 * 10**9), ("3M", 3 * 10**6), ("4 TiB", 4 * 1024**4)],
)
def test_memory_is_read_with_its_unit(text: int | str, expected_bytes: int) -> None:
    assert parse_memory(text) == expected_bytes


def test_settings_turn_truth_into_numbers() -> None:
    settings = options({"settings": {"a": True, "b": "x", "c": 1.5}}).settings
    assert settings == {"a": 1, "b": "x", "c": 1.5}


def test_the_password_is_not_in_the_repr() -> None:
    assert "hunter2" not in repr(options(password="hunter2"))


def test_a_connection_of_another_type_is_told() -> None:
    connection = Connection(conn_id="aws_default", conn_type="aws", extra='{"endpoint_url": "x"}')
    with pytest.raises(ConfigurationError, match="Connection 'aws_default' is of type aws, not chs3: name another one"):
        ConnectionOptions.from_airflow(connection)


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"http_prot": 1}, "'http_prot': did you mean 'http_port'?"),
        ({"zzz": 1}, "known are alt_hosts, ca_certs"),
        ({"secure": "perhaps"}, "'secure' must be true or false, not 'perhaps'"),
        ({"http_port": 0}, "'http_port' must be a port from 1 to 65535, not 0"),
        ({"http_port": True}, "'http_port' must be a port"),
        ({"http_port": "x"}, "'http_port' must be a port"),
        ({"compression": "gzip"}, "'compression' must be one of lz4, zstd, none, not 'gzip'"),
        ({"connect_timeout_seconds": -1}, "'connect_timeout_seconds' must be a number of seconds above 0, not -1"),
        ({"send_receive_timeout_seconds": "soon"}, "'send_receive_timeout_seconds' must be a number of seconds"),
        ({"cluster": 7}, "'cluster' must be text, not 7"),
        ({"alt_hosts": ["ok", 7]}, "'alt_hosts' must be a list"),
        ({"alt_hosts": "ch-2:port"}, "'alt_hosts' must be host, host:port or [IPv6]:port, not 'ch-2:port'"),
        ({"settings": "max_threads=4"}, "'settings' must be a JSON object, not 'max_threads=4'"),
        ({"settings": {"x; DROP TABLE y": 1}}, "'x; DROP TABLE y' is not the name of a setting"),
        ({"settings": {"max_threads": [1]}}, "'max_threads' must be text, a number or true/false, not list"),
        ({"node_addresses": {"n": "a b"}}, "'node_addresses': 'n' must be host, host:port"),
        ({"node_specs": {"n": {"cores": 1}}}, '\'n\' must be like {"cores": 8, "memory": "32GiB"}'),
        ({"node_specs": {"n": {"cores": 1.5, "memory": 1}}}, "cores must be a whole number above 0, not 1.5"),
        ({"node_specs": {"n": {"cores": 1, "memory": "much"}}}, "memory must be bytes or text such as '32GiB'"),
        ({"keyfile": "/key"}, "'keyfile' needs 'certfile'"),
        ({"one_door": True, "cluster": ""}, "'one_door' needs 'cluster'"),
        ({"one_door": True, "cluster": "c", "node_addresses": {"n": "m"}}, "set either extra 'one_door'"),
        ({"one_door": "maybe"}, "'one_door' must be true or false"),
    ],
)
def test_a_wrong_extra_is_told_by_its_name(extra: dict[str, Any], told: str) -> None:
    assert told in refusal(extra)


def test_messages_name_the_connection() -> None:
    assert refusal({"http_prot": 1}).startswith("Connection 'ch'")


@pytest.mark.parametrize("host", ["http://ch-1", "ch-1/db", "user@ch-1", "ch 1", "ch-1,ch-2", "ch-1:99999"])
def test_a_host_that_is_none_is_refused(host: str) -> None:
    assert "host must be host, host:port" in refusal(host=host)


def test_a_password_in_the_host_is_not_told() -> None:
    assert "hunter2" not in refusal(host="clickhouse://loader:hunter2@ch-1:9000/db")


def test_a_missing_host_is_told() -> None:
    assert refusal(host=None) == "Connection 'ch': the host is missing."
