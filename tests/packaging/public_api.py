"""All that users may name in their code, as text. `./dev run python -m tests.packaging.public_api` writes it anew."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import airflow_provider_chs3
from airflow_provider_chs3.client.connection import KNOWN_EXTRAS
from airflow_provider_chs3.core.arguments.declaration import declared
from airflow_provider_chs3.core.arguments.load_arguments import GROUPS
from airflow_provider_chs3.core.ledger.table import COLUMNS, LOADS_COLUMNS
from airflow_provider_chs3.core.load.decision import LoadResult
from airflow_provider_chs3.core.target.topology import RECORDS_SCHEMA
from airflow_provider_chs3.operators._support.declared import arguments_of
from airflow_provider_chs3.sources import STORAGES
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

SNAPSHOT = Path(__file__).parent / "public_api.txt"

#: Triggers too: Airflow keeps their arguments while a task is deferred, over an upgrade as well.
_PACKAGES = ("operators", "sensors", "transfers", "triggers")
_MODULES = (
    "assets",
    "exceptions",
    "hooks.clickhouse",
    "client.connection",
    "operators._support.statement_task",
    "testbed.pytest_plugin",
    "testbed.trips",
    "sources.storage",
    "sources.s3.events",
    *(f"sources.{name}" for name in (*STORAGES, "clickhouse")),
)


def public_api() -> str:
    """One line for each name: classes and functions with their parameters, then fields of what is stored or sent."""
    lines = sorted(line for module in modules() for line in _names(module))
    groups = {"S3ToClickHouseOperator": arguments_of(S3ToClickHouseOperator)}
    groups |= {name: declared(kind) for name, kind in GROUPS.items()}
    lines += [f"arguments of {name}: {', '.join(found)}" for name, found in groups.items()]
    lines += [f"connection extra {name}" for name in KNOWN_EXTRAS]
    lines += [f"result {field.name}" for field in fields(LoadResult)]
    lines += [f"ledger: {RECORDS_SCHEMA}", *(f"ledger column {name}" for name in COLUMNS)]
    lines += [f"loads column {name}" for name in LOADS_COLUMNS]
    return "\n".join(lines) + "\n"


def modules() -> Iterator[ModuleType]:
    root = airflow_provider_chs3.__name__
    for package in _PACKAGES:
        found = pkgutil.iter_modules(importlib.import_module(f"{root}.{package}").__path__)
        yield from (importlib.import_module(f"{root}.{package}.{each.name}") for each in found if each.name[0] != "_")
    yield from (importlib.import_module(f"{root}.{name}") for name in _MODULES)


def _names(module: ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        function = inspect.unwrap(value)
        is_here = getattr(function, "__module__", "") == module.__name__ or name in getattr(module, "__all__", ())
        if name.startswith(("_", "pytest_")) or not is_here:
            continue
        where = f"{module.__name__}.{name}"
        if inspect.isclass(value):
            bases = ", ".join(base.__name__ for base in value.__bases__)
            yield f"class {where}({bases}): {_parameters(value.__init__)}"
            members = inspect.getmembers_static(value, lambda member: isinstance(member, _METHODS))
            yield from (
                f"{where}.{member}{_parameters(inspect.unwrap(getattr(value, member)))}"
                for member, _ in members
                if member in vars(value) and not member.startswith("_")
            )
        elif callable(function):
            yield f"{where}{_parameters(function)}"


_METHODS = (type(lambda: None), classmethod, staticmethod)


def _parameters(function: object) -> str:
    # Names, kinds and defaults: annotations may become wider without harm.
    signature = inspect.signature(function)  # type: ignore[arg-type]
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))


if __name__ == "__main__":
    SNAPSHOT.write_text(public_api(), encoding="utf-8")
