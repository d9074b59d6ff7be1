"""What Airflow reads of the provider, and the connection form that it makes of it."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from airflow.providers.common.compat.sdk import BaseHook, BaseOperator, BaseSensorOperator
from airflow.triggers.base import BaseTrigger

import airflow_provider_chs3
from airflow_provider_chs3.client.connection import COMPRESSIONS, KNOWN_EXTRAS
from airflow_provider_chs3.get_provider_info import get_provider_info


@pytest.fixture
def connection_type() -> dict[str, Any]:
    (only,) = get_provider_info()["connection-types"]
    return only


@pytest.fixture
def form() -> Any:
    """The form as Airflow's API describes it to the browser."""
    from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

    (only,) = (meta for meta in HookMetaService.hook_meta_data() if meta.connection_type == "chs3")
    if only.extra_fields is None:
        pytest.skip("Airflow makes no form of a provider's info before 3.2: extras are JSON there")
    return only


def test_it_fits_airflows_schema() -> None:
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_its_lifecycle_is_one_that_airflow_knows() -> None:
    schema = json.loads(files("airflow").joinpath("provider.yaml.schema.json").read_text())
    if "lifecycle" not in schema["properties"]:
        pytest.skip("Airflow's providers have no lifecycle before 3.3")
    jsonschema.validate(get_provider_info()["lifecycle"], schema["properties"]["lifecycle"])


def test_its_version_is_the_packages() -> None:
    assert get_provider_info()["versions"] == [airflow_provider_chs3.__version__]


def test_reading_it_imports_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules);"
        "import airflow_provider_chs3.get_provider_info as m; m.get_provider_info();"
        "print(*sorted(set(sys.modules) - before - set(sys.stdlib_module_names)))"
    )
    added = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert added == ["airflow_provider_chs3", "airflow_provider_chs3.get_provider_info"]


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        ("operators", BaseOperator),
        ("transfers", BaseOperator),
        ("sensors", BaseSensorOperator),
        ("triggers", BaseTrigger),
    ],
)
def test_it_names_every_module_of_a_kind_that_has_one(kind: str, base: type) -> None:
    package = importlib.import_module(f"airflow_provider_chs3.{kind}")
    modules = {module.name for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")}
    # A base or a part of operators or triggers is none by itself.
    shared = {name for name in modules if name.endswith((".operators.period", ".triggers.servers")) or "._" in name}
    found = {name for name in modules - shared if _defines(name, base)}
    named = [each.get("python-modules", [each.get("python-module")]) for each in get_provider_info()[kind]]  # type: ignore[attr-defined]
    assert sorted(chain.from_iterable(named)) == sorted(found)


def _defines(module: str, base: type) -> bool:
    values = vars(importlib.import_module(module)).values()
    return any(isinstance(value, type) and issubclass(value, base) and value.__module__ == module for value in values)


def test_it_names_every_hook_with_a_connection_type_of_its_own() -> None:
    package = importlib.import_module("airflow_provider_chs3.hooks")
    modules = [each.name for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    found = {
        name
        for name in modules
        for var in vars(importlib.import_module(name)).values()
        if isinstance(var, type) and issubclass(var, BaseHook) and var.__module__ == name and "conn_type" in vars(var)
    }
    (hooks,) = get_provider_info()["hooks"]  # type: ignore[misc]
    assert hooks["python-modules"] == sorted(found)


def _texts(value: Any) -> Iterator[str]:
    """All texts in a provider's info, whatever they are in."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        yield from chain.from_iterable(map(_texts, value.values() if isinstance(value, dict) else value))


@pytest.mark.parametrize(
    "name", sorted(text for text in _texts(get_provider_info()) if text.startswith("airflow_provider_"))
)
def test_a_name_that_it_gives_is_there(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, member = name.rpartition(".")
        assert hasattr(importlib.import_module(module), member)


@pytest.mark.parametrize("path", sorted(text for text in _texts(get_provider_info()) if text.startswith("/docs/")))
def test_a_guide_or_logo_that_it_names_is_there(path: str) -> None:
    assert (Path(__file__).parents[2] / path.removeprefix("/")).is_file()


def test_every_transfer_has_a_guide_and_integrations_that_a_provider_declares() -> None:
    from airflow.providers_manager import ProvidersManager

    declared = {
        each["integration-name"]
        for provider in ProvidersManager().providers.values()
        for each in provider.data.get("integrations", ())
    }
    transfers: Any = get_provider_info()["transfers"]
    assert all("how-to-guide" in transfer for transfer in transfers)
    assert {transfer["target-integration-name"] for transfer in transfers} <= declared
    assert {transfer["source-integration-name"] for transfer in transfers} <= declared | _OF_OTHER_PROVIDERS


#: As their providers declare them, which need not be installed.
_OF_OTHER_PROVIDERS = {
    *("Apache Kafka", "Google Cloud Storage (GCS)", "Hadoop Distributed File System (HDFS)", "Iceberg"),
    *("Microsoft Azure Blob Storage", "MySQL", "PostgreSQL"),
}


def test_the_connection_type_leads_to_the_hook(connection_type: dict[str, Any]) -> None:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

    described = (connection_type["hook-class-name"], connection_type["connection-type"], connection_type["hook-name"])
    name = f"{ClickHouseHook.__module__}.{ClickHouseHook.__qualname__}"
    assert described == (name, ClickHouseHook.conn_type, ClickHouseHook.hook_name)


def test_the_form_has_a_field_for_every_extra(form: Any) -> None:
    assert tuple(form.extra_fields) == KNOWN_EXTRAS


def test_the_form_speaks_of_database_and_user(form: Any) -> None:
    assert (form.standard_fields.url_schema.title, form.standard_fields.login.title) == ("Database", "User")


def test_the_form_offers_the_compressions(form: Any) -> None:
    assert tuple(form.extra_fields["compression"]["schema"]["enum"]) == COMPRESSIONS


def test_every_field_may_be_left_empty(form: Any) -> None:
    assert all("null" in field["schema"]["type"] for field in form.extra_fields.values())


def test_the_forms_defaults_are_the_options_defaults(form: Any) -> None:
    from airflow.providers.common.compat.sdk import Connection

    from airflow_provider_chs3.client.connection import ConnectionOptions

    as_stored = {name: field["value"] for name, field in form.extra_fields.items()}
    stored = Connection(conn_id="ch", conn_type="chs3", host="ch-1", extra=json.dumps(as_stored))
    assert ConnectionOptions.from_airflow(stored) == ConnectionOptions(hosts=(("ch-1", 9000),))


def test_importing_the_operator_imports_neither_driver_nor_lineage() -> None:
    code = "import sys, airflow_provider_chs3.transfers.s3_to_clickhouse; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"clickhouse_driver", "boto3", "pandas", "numpy", "openlineage", "statsd"} & set(loaded)
