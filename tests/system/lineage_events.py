"""What Airflow's OpenLineage provider emits of tasks, read back and held against the client's own classes."""

from __future__ import annotations

import importlib
import json
import pkgutil
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any

import attr
import jsonschema
import pytest


@contextmanager
def emitting(events: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Airflow's listener, which writes its events into a file."""
    from airflow.providers.openlineage import conf

    transport = {"type": "file", "log_file_path": str(events), "append": True}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))
    _forget(conf)
    with _listener():
        yield
    monkeypatch.undo()
    _forget(conf)


@contextmanager
def _listener() -> Iterator[None]:
    from airflow.providers.openlineage.plugins.listener import OpenLineageListener

    try:
        from airflow.sdk.listener import get_listener_manager
    except ModuleNotFoundError:  # Airflow 3.1
        from airflow.listeners.listener import get_listener_manager

    listeners = get_listener_manager().pm
    if any(isinstance(plugin, OpenLineageListener) for plugin in listeners.get_plugins()):
        # Plugins are loaded once, here with a transport.
        yield
        return
    listener = OpenLineageListener()
    listeners.register(listener)
    yield
    listeners.unregister(listener)


def _forget(conf: Any) -> None:
    for var in vars(conf).values():
        if hasattr(var, "cache_clear"):
            var.cache_clear()


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events of tasks, in the order of their emission."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def check(event: dict[str, Any]) -> None:
    """Check an event, with all facets of OpenLineage's own, by the classes that its client has from the spec."""
    from openlineage.client.generated.base import RunEvent

    validator = jsonschema.Draft202012Validator
    validator(_schema_of(RunEvent), format_checker=validator.FORMAT_CHECKER).validate(event)
    known = _facet_classes()
    for facet in _facets(event):
        assert {"_producer", "_schemaURL"} <= facet.keys()
        if facet["_schemaURL"] in known:
            # The spec lets facets have further properties; those of a typing error would be some.
            schema = _schema_of(known[facet["_schemaURL"]]) | {"additionalProperties": False}
            validator(schema).validate({name: value for name, value in facet.items() if name != "_deleted"})


def _facets(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for each in (event["run"], event["job"], *event["inputs"], *event["outputs"]):
        for kind in ("facets", "inputFacets", "outputFacets"):
            yield from (each.get(kind) or {}).values()


def _facet_classes() -> dict[str, type]:
    """The facets of the spec, by the URL of each one's schema."""
    from openlineage.client import generated

    found = {}
    # Those in base are what facets of no fixed kind go by, Airflow's own among them.
    for module in pkgutil.iter_modules(generated.__path__, f"{generated.__name__}."):
        for var in vars(importlib.import_module(module.name)).values():
            if hasattr(var, "_get_schema") and var.__module__ != f"{generated.__name__}.base":
                found[var._get_schema()] = var
    return found


def _schema_of(kind: Any, *above: Any) -> dict[str, Any]:
    """A JSON schema of what a class of the client holds; where it holds itself, of one level."""
    if kind in (Any, object, *above):
        return {}
    if attr.has(kind):
        attr.resolve_types(kind)
        required = [field.name for field in attr.fields(kind) if field.default is attr.NOTHING]
        properties = {field.name: _schema_of(field.type, *above, kind) for field in attr.fields(kind)}
        return {"type": "object", "required": required, "properties": properties}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [each.value for each in kind]}
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        return {"anyOf": [_schema_of(argument, *above) for argument in arguments]}
    if origin is list:
        return {"type": "array", "items": _schema_of(arguments[0], *above)}
    if origin is dict or kind is dict:
        return {"type": "object"}
    names = {str: "string", int: "integer", bool: "boolean", float: "number", NoneType: "null"}
    return {"type": names[kind]}
