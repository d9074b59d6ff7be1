"""The storage of periods, as the command line names it."""

from __future__ import annotations

import argparse
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.sources import STORAGES, storage_class

if TYPE_CHECKING:
    from airflow_provider_chs3.sources.storage import Storage

#: The command that does without a source, and then skips its checks.
_DOCTOR = "doctor"
#: The option that always has a value: empty for a public bucket.
_AWS = "aws_conn_id"


def source_arguments(given: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of operators that say where the periods are.

    Args:
        given: The options of a command that reads them.

    Raises:
        ConfigurationError: If an option is of another storage, or one is missing.
    """
    storage, options = storage_class(given.storage), _options(given)
    missing = [name for name in _required(storage) if name not in options]
    if missing and not (given.command == _DOCTOR and "key" in missing):
        _need(given, missing)
    return {"objects": None if missing else storage.of_options(options)}


def object_storage(given: argparse.Namespace, key: str) -> Storage:
    """Return the storage of objects.

    Args:
        given: The options of a command.
        key: Template of the objects' keys.

    Raises:
        ConfigurationError: If an option is of another storage, or one is missing.
    """
    storage, options = storage_class(given.storage), {**_options(given), "key": key}
    if missing := [name for name in _required(storage) if name not in options]:
        _need(given, missing)
    return storage.of_options(options)


def _options(given: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the storage that have a value."""
    own = storage_class(given.storage).options
    every = {name: getattr(given, name, None) for each in STORAGES for name in storage_class(each).options}
    if refused := [f"--{name.replace('_', '-')}" for name in every if every[name] and name not in (*own, _AWS)]:
        raise ConfigurationError(f"{', '.join(refused)}: --storage {given.storage} does not take this.")
    return {name: every[name] or None for name in own if every[name] or name == _AWS}


def _required(storage: type[Storage]) -> list[str]:
    needed = {each.name for each in fields(storage) if each.default is MISSING}
    return [option for option, argument in storage.options.items() if argument in needed]


def _need(given: argparse.Namespace, missing: list[str]) -> None:
    names = " and ".join(f"--{name.replace('_', '-')}" for name in missing)
    raise ConfigurationError(f"--storage {given.storage} needs more options: give {names}.")
