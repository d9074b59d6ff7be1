"""Loads from a YAML or JSON file: `defaults`, and `loads` with the arguments of each."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from airflow_provider_chs3.core.arguments.declaration import REQUIRED, Argument, Group, declared, is_of_a_run
from airflow_provider_chs3.core.arguments.load_arguments import (
    FRESH_BY,
    GROUPS,
    NAME,
    OBJECTS,
    OF_LOADS,
    OF_PLANS,
    TABLE,
    TIMEZONE,
)
from airflow_provider_chs3.core.files.text_fields import Dialect
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.load.document import Document
from airflow_provider_chs3.load.named_files import Keys
from airflow_provider_chs3.sources import STORAGES, storage_class

#: Arguments that are dicts with names of their own.
ALL_GROUPS: Mapping[str, type[Group]] = {**GROUPS, Dialect.group: Dialect}
#: Arguments of a single load, which `defaults` cannot have.
OF_A_LOAD = (NAME.name, TABLE.name)
#: Arguments of the tasks that `scheduled_load` makes of a load.
OF_TASKS = frozenset(argument.name for argument in (*OF_LOADS, *OF_PLANS))
#: Where editors find the schema of a JSON file.
SCHEMA = "$schema"


def read_loads(path: str | Path) -> tuple[Load, ...]:
    """Return the loads of a file; see `Load.read`."""
    document = Document(Path(path))
    values = {} if document.values is None else document.values
    if not isinstance(values, dict):
        raise ConfigurationError(f"{document.at(())} is no mapping: write defaults: and loads: (and {SCHEMA}:).")
    document.check_names((), values, ("defaults", "loads", SCHEMA))
    if "loads" not in values:
        raise ConfigurationError(f"{path} has no loads: add loads, a list of mappings, each with a table.")
    defaults = _arguments(document, ("defaults",), values.get("defaults", {}))
    entries = values["loads"]
    if not isinstance(entries, list) or not entries:
        raise ConfigurationError(f"{document.at(('loads',))} is no list of loads: write mappings, each with a table.")
    loads: dict[str, Load] = {}
    lines: dict[str, int] = {}
    for number, entry in enumerate(entries):
        keys: Keys = ("loads", number)
        given = _arguments(document, keys, entry)
        with document.naming(keys):
            load = Load.of(_merged(defaults, given))
        naming = (*keys, "name" if given.get("name") else "table")
        if load.name is None:
            raise ConfigurationError(f"{document.at(naming)} is a template: set a name for the load, too.")
        if not load.name.isprintable():
            raise ConfigurationError(
                f"{document.at(naming)}={load.name!r} has a line break or the like: set a name of one line."
            )
        if load.name in loads:
            raise ConfigurationError(
                f"{document.at(naming)} names the load {load.name!r}, as line {lines[load.name]} does: "
                "set another name for one of them."
            )
        _check_table(document, (*keys, "table"), load, loads, lines)
        loads[load.name], lines[load.name] = load, document.line(naming)
    return tuple(loads.values())


def _check_table(
    document: Document, keys: Keys, load: Load, loads: Mapping[str, Load], lines: Mapping[str, int]
) -> None:
    """Check that no two loads of other objects replace each other's periods of a table; arrivals only add to them."""
    table = _table_of(load)
    for name, other in loads.items():
        is_same = (load.clickhouse_conn_id, table) == (other.clickhouse_conn_id, _table_of(other))
        is_elsewhere = (load.bucket, load.key, load.objects) != (other.bucket, other.key, other.objects)
        adds = load.is_by_arrival and other.is_by_arrival
        if is_same and is_elsewhere and not adds and not is_of_a_run([load.database, load.table]):
            raise ConfigurationError(
                f"{document.at(keys)}: line {lines[name]} loads {str(table).removeprefix('.')}, too, and each of the "
                "two would replace the other's rows of a period. Let one load have the objects of both, such as key: "
                "'*/{YYYY-MM}/*.parquet'; or, if they have no period in common, write them into two files."
            )


def _table_of(load: Load) -> TableName:
    """Return the table; without a database in the file, it is in the connection's."""
    return TableName.of(load.table, load.database, default_database="")


def _arguments(document: Document, keys: Keys, given: Any) -> dict[str, Any]:
    known = declared(Load)
    for name in given if isinstance(given, dict) else ():
        if keys == ("defaults",) and name in OF_A_LOAD:
            raise ConfigurationError(f"{document.at((*keys, name))} is of a single load: set it there.")
        if name in OF_TASKS and name not in known:
            raise ConfigurationError(
                f"{document.at((*keys, name))} is an argument of scheduled_load, not of a load: set it there."
            )
    document.check_names(keys, given, [name for name in known if keys != ("defaults",) or name not in OF_A_LOAD])
    return {name: _argument(document, (*keys, name), known[name], value) for name, value in given.items()}


def _argument(document: Document, keys: Keys, argument: Argument, value: Any) -> Any:
    if argument.name == OBJECTS.name:
        return None if value is None else _storage(document, keys, value)
    if argument.may_be_a_file:
        value = document.read(keys, value)
    document.check(keys, argument, value)
    if argument.name in (FRESH_BY.name, TIMEZONE.name) and value is not None and not is_of_a_run(value):
        with document.naming(keys):
            _check_time(argument, value)
    if argument.name in ALL_GROUPS and isinstance(value, dict):
        _check_group(document, keys, ALL_GROUPS[argument.name], value)
    return value


def _check_time(argument: Argument, value: str) -> None:
    from airflow_provider_chs3.core.model.freshness import FreshBy
    from airflow_provider_chs3.core.model.period import zone_of

    _ = zone_of(value) if argument.name == TIMEZONE.name else FreshBy.parse(value, None)


def _check_group(document: Document, keys: Keys, kind: type[Group], given: Mapping[str, Any]) -> None:
    _check_all(document, keys, given, declared(kind))
    if is_of_a_run(given):
        return
    with document.naming(keys):
        kind.of(given)


def _check_all(
    document: Document,
    keys: Keys,
    given: Mapping[str, Any],
    known: Mapping[str, Argument],
    meant: Mapping[str, str] | None = None,
) -> None:
    document.check_names(keys, given, known, meant=meant)
    for name, value in given.items():
        document.check((*keys, name), known[name], value)


def _storage(document: Document, keys: Keys, given: Any) -> Any:
    """Return the place of objects, such as `{storage: gcs, bucket: lake, object_name: …}`."""
    if not isinstance(given, dict) or "storage" not in given:
        raise ConfigurationError(
            f"{document.at(keys)} names no storage: use a mapping with storage, one of {', '.join(STORAGES)}."
        )
    name = given["storage"]
    if str(name) not in STORAGES:
        near = get_close_matches(str(name), STORAGES, n=1)
        hint = f"do you mean {near[0]}?" if near else f"use one of {', '.join(STORAGES)}."
        raise ConfigurationError(f"{document.at((*keys, 'storage'))}={name!r} is not known: {hint}")
    storage = storage_class(name)
    values = {name: value for name, value in given.items() if name != "storage"}
    known = storage.arguments()
    _check_all(document, keys, values, known, storage.options)
    required = (argument.name for argument in known.values() if argument.default is REQUIRED)
    if missing := [argument for argument in required if argument not in values]:
        raise ConfigurationError(f"{document.at(keys)} needs {', '.join(missing)}: add what is missing.")
    return storage(**values)


def _merged(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a load, with those that it takes from the defaults.

    Objects have one place: where a load says it, that of the defaults does not count.
    """
    key = given.get("key") or ""
    left_out = {
        "objects": key or given.get("bucket"),
        "key": given.get("objects"),
        # A URL names the bucket, too.
        "bucket": given.get("objects") or "://" in key,
    }
    kept = {name: value for name, value in defaults.items() if not left_out.get(name)}
    merged = {**kept, **given}
    for name in ALL_GROUPS:
        if isinstance(default := defaults.get(name), dict) and isinstance(value := given.get(name), dict):
            merged[name] = {**default, **value}
    return merged
