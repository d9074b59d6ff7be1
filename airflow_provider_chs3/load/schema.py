"""A JSON schema of files of loads, for editors: all of it follows from the declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_chs3.core.arguments.declaration import REQUIRED, Argument, declared, elements_of
from airflow_provider_chs3.core.arguments.load_arguments import OBJECTS
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.load.file import ALL_GROUPS, OF_A_LOAD, SCHEMA
from airflow_provider_chs3.sources import STORAGES, storage_class

_SCALARS = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "None": "null"}
_TEMPLATE = {"type": "string", "pattern": r"\{\{|\{%"}
_TEMPLATE_OR_FILE = {"type": "string", "pattern": r"\{\{|\{%|\.json$"}


def schema() -> dict[str, Any]:
    """Return the schema of what `Load.read` takes."""
    arguments = declared(Load)
    shared = [name for name in arguments if name not in OF_A_LOAD]
    load = {**_mapping(_references(arguments), ["table"]), "description": "A load."}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Loads of airflow-provider-chs3",
        "definitions": {name: _argument(argument) for name, argument in arguments.items()},
        **_mapping(
            {
                SCHEMA: {"type": "string"},
                "defaults": {
                    **_mapping(_references(shared)),
                    "description": "Arguments of every load that does not set them.",
                },
                "loads": {"type": "array", "minItems": 1, "items": load, "description": "The loads."},
            },
            ["loads"],
        ),
    }


def _references(names: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/definitions/{name}"} for name in names}


def _mapping(properties: Mapping[str, Any], required: Iterable[str] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(required),
        "additionalProperties": False,
    }


def _argument(argument: Argument) -> dict[str, Any]:
    # Docstrings of storages have the defaults.
    described = {"description": argument.help if "Default:" in argument.help else argument.described}
    if argument.name == OBJECTS.name:
        return {**described, "anyOf": [*map(_storage, STORAGES), {"type": "null"}]}
    kinds = [kind for kind in argument.kinds if not (kind == "str" and argument.may_be_a_file)]
    choices = [_kind(kind, argument) for kind in kinds if kind in _SCALARS or "[" in kind]
    if argument.is_template and "str" not in kinds:
        choices.append(_TEMPLATE_OR_FILE if kinds[0].startswith("Mapping") else _TEMPLATE)
    elif argument.choices:
        choices.append(_TEMPLATE)
    return {**described, **(choices[0] if len(choices) == 1 else {"anyOf": choices})}


def _kind(kind: str, argument: Argument) -> dict[str, Any]:
    if kind == "str" and argument.choices:
        return {"enum": [*argument.choices]}
    if kind.startswith("Mapping"):
        group = ALL_GROUPS.get(argument.name)
        if group is not None:
            return _mapping({name: _argument(argument) for name, argument in declared(group).items()})
        return {"type": "object", "additionalProperties": _elements(kind)}
    if "[" in kind:
        return {"type": "array", "items": _elements(kind)}
    limits = {"minimum": argument.least, "exclusiveMinimum": argument.above, "maximum": argument.most}
    is_number = kind in ("int", "float")
    return {
        "type": _SCALARS[kind],
        **{name: limit for name, limit in limits.items() if is_number and limit is not None},
    }


def _elements(kind: str) -> Any:
    """Return the schema of what a list or a mapping contains."""
    kinds = elements_of(kind)
    return True if kinds == ("Any",) else {"type": [_SCALARS[kind] for kind in kinds]}


def _storage(name: str) -> dict[str, Any]:
    arguments = storage_class(name).arguments()
    required = [name for name, argument in arguments.items() if argument.default is REQUIRED]
    properties = {"storage": {"const": name}, **{name: _argument(argument) for name, argument in arguments.items()}}
    return _mapping(properties, ["storage", *required])
