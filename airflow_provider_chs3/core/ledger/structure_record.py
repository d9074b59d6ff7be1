"""The structure that is recorded of a table with each publication, and the changes that make a period another one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from airflow_provider_chs3.core.model.models import SettingValues
from airflow_provider_chs3.core.sql.server_defaults import is_about_reading
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.table_facts import Column, TableFacts
from airflow_provider_chs3.core.target.time_zones import going_by_servers

#: JSON-safe: see `structure_of`.
Structure: TypeAlias = Mapping[str, Any]

_KEYS = ("partition_key", "sorting_key", "primary_key", "sampling_key")
#: Parts of the names of those that change how fast files are read, and not what is read.
_OF_SPEED = ("_block_", "_watermark", "_parallel_", "_push_down", "_bloom_filter", "_prefetch", "_seek")


def structure_of(
    context: Target,
    *,
    distribution: str,
    settings: SettingValues | None,
    shard_num: int | None = None,
    adds_columns: bool = False,
) -> Structure:
    """Return what decides the rows of a load and their nodes, besides the objects and the task's own arguments."""
    table_facts, by_key = context.table_facts, distribution == "sharding_key"
    return {
        "columns": [
            [column.name, column.type, column.default_kind, column.default_expression] for column in table_facts.columns
        ],
        **{name: getattr(table_facts, name) for name in _KEYS},
        "indices": [list(index) for index in table_facts.indices],
        "projections": [list(projection) for projection in table_facts.projections],
        "time_zone": None if settings is None else context.zone_of(settings),
        "server_zone": ", ".join(context.server_zones) if _goes_by_servers(table_facts) else "",
        "settings": None if settings is None else settings_of_reading(settings),
        "sharding": [context.sharding_key, len(context.publishers), shard_num] if by_key else None,
        **({"adds_columns": True} if adds_columns else {}),
    }


@lru_cache(maxsize=16)
def _goes_by_servers(table_facts: TableFacts) -> bool:
    return any(going_by_servers(table_facts))


def loaded_of(names: Iterable[str], in_files: Iterable[str] | None, *, every_column: bool) -> Structure:
    """Return what a load took from its files."""
    return {
        "loaded": sorted(names),
        "in_files": None if in_files is None else sorted(in_files),
        "every_column": every_column,
    }


def settings_of_reading(settings: SettingValues) -> dict[str, str]:
    """Return the user's settings that may change what is read from files, or the values made of it."""
    return {name: str(value) for name, value in sorted(settings.items()) if _changes_values(name)}


def as_text(*structures: Structure) -> str:
    """Return the text that the ledger stores."""
    return json.dumps(
        {name: value for structure in structures for name, value in structure.items()}, separators=(",", ":")
    )


def difference(recorded: Structure, current: Structure, *, shard_num: int) -> str:
    """Return why a load would make other rows now than then, as a text; empty if it would not."""
    return next(_differences(recorded, current, shard_num), "")


def _differences(recorded: Structure, current: Structure, shard_num: int) -> Iterator[str]:
    yield from _columns(recorded, current)
    yield from _describe_lacking(recorded, current)
    if current["time_zone"] is not None and recorded["time_zone"] != current["time_zone"]:
        was, is_now = recorded["time_zone"], current["time_zone"]
        yield f"times without a zone were read in {was!r}, and are now read in {is_now!r}"
    if recorded["server_zone"] != current["server_zone"]:
        yield f"the servers' time zone was {recorded['server_zone']!r} and is {current['server_zone']!r}"
    if current["settings"] is not None:
        yield from _settings(recorded["settings"], current["settings"])
    if recorded["sharding"] and current["sharding"]:
        yield from _sharding(recorded["sharding"], current["sharding"], shard_num)


def _columns(recorded: Structure, current: Structure) -> Iterator[str]:
    before = {column[0]: column for column in recorded["columns"]}
    for column in current["columns"]:
        name = column[0]
        if name not in before:
            yield from _describe_new(recorded, Column(*column))
        elif column != before[name] and not _makes_same_values(before[name], column):
            yield f"column {name!r} of the table was {_shown(before[name])} and is {_shown(column)}"


def _describe_new(recorded: Structure, column: Column) -> Iterator[str]:
    """Return the difference that a new column makes: none if no file has it, as existing rows have its default."""
    if not recorded["every_column"] or not column.is_loaded:
        return
    in_files = recorded["in_files"]
    if in_files is None and column.default_kind != "EPHEMERAL":
        yield f"column {column.name!r} was added to the table"
    elif in_files is not None and column.name in in_files:
        yield f"column {column.name!r} was added to the table, and the period's files have it"


def _describe_lacking(recorded: Structure, current: Structure) -> Iterator[str]:
    """Return the difference that it makes to add columns from now on: none if the files have no others."""
    if not current.get("adds_columns") or recorded.get("adds_columns") or not recorded["every_column"]:
        return
    in_files = recorded["in_files"]
    if in_files is None:
        yield (
            "its files have not been checked for columns that the table lacks, which "
            "policies={'on_new_columns': 'add'} adds"
        )
        return
    lacking = sorted(set(in_files) - {column[0] for column in current["columns"]})
    if lacking:
        names = ", ".join(map(repr, lacking))
        yield f"its files have {names}, which policies={{'on_new_columns': 'add'}} adds to the table"


def _makes_same_values(before: Sequence[str], current: Sequence[str]) -> bool:
    """Check whether two columns give the same values: an ALIAS is computed when read; an Enum may get more names."""
    if before[1:] == current[1:] or before[2] == current[2] == "ALIAS":
        return True
    return before[2:] == current[2:] and before[1].startswith("Enum") and current[1].startswith("Enum")


def _shown(column: Sequence[str]) -> str:
    return " ".join(filter(None, column[1:]))


def _settings(before: Mapping[str, str], current: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*before, *current}):
        if before.get(name) != current.get(name) and _changes_values(name):
            was, is_now = (repr(settings[name]) if name in settings else "not set" for settings in (before, current))
            yield f"setting {name} was {was} and is {is_now}"


def _sharding(before: Sequence[Any], current: Sequence[Any], shard_num: int) -> Iterator[str]:
    (key, shards, place), (key_now, shards_now, _) = before, current
    if key != key_now:
        yield f"the sharding key was {key} and is {key_now}"
    elif (shards, place) != (shards_now, shard_num):
        yield f"shard {place} of {shards} is shard {shard_num} of {shards_now} now"


def _changes_values(setting: str) -> bool:
    # The time zone is recorded by itself, whoever names it.
    return (
        setting != "session_timezone" and is_about_reading(setting) and not any(part in setting for part in _OF_SPEED)
    )


def loaded_as_recorded(text: str, loaded: Iterable[str], in_files: Iterable[str] | None) -> bool:
    """Check whether a load takes the same columns, from files with the same columns, as the recorded load."""
    recorded: Structure = json.loads(text)
    current = loaded_of(loaded, in_files, every_column=True)
    return all(recorded[name] == current[name] for name in ("loaded", "in_files"))
