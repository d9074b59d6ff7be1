"""Refuse arguments that have no effect: by the format of files, by the kind of source, and by other arguments.

docs/reference/arguments.md shows these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.arguments.declaration import Group, declared
from airflow_provider_chs3.core.arguments.load_arguments import (
    GROUPS,
    MERGE_HEALTH,
    Files,
    Increments,
    PolicyGroup,
)
from airflow_provider_chs3.core.files.csv_dialect import Dialect
from airflow_provider_chs3.core.model.formats import FORMATS, Format
from airflow_provider_chs3.exceptions import ConfigurationError

#: Formats with readers that give times without a zone.
_WITH_NAIVE_TIMES = ("Parquet", "ORC", "Arrow")


@dataclass(frozen=True)
class Effect:
    """An argument and the formats it has an effect on."""

    group: str
    name: str
    applies_to: Callable[[Format], bool] = lambda file_format: True
    reason: str = ""
    way_out: str = "Leave it out."
    is_of_rows: bool = False

    @property
    def key(self) -> str:
        """The argument as users write it."""
        return f"{self.group}[{self.name!r}]"

    @property
    def where(self) -> str:
        """The formats it has an effect on, as text, and whether rows of databases are among them."""
        formats = [name for name, file_format in FORMATS.items() if self.applies_to(file_format)]
        shown = "all formats" if len(formats) == len(FORMATS) else ", ".join(formats)
        return f"{shown}; rows of databases and of SELECTs" if self.is_of_rows else shown


_OF_CSV = "csv={…} describes CSV alone"
_TSV_AS_CSV = (
    "Leave it out; for a TSV file with quotes instead of backslashes, give files={'file_format': 'CSVWithNames'} and "
    "csv={'delimiter': '\\t'}."
)
_SKIP_IN_TSV = "Leave it out; in TSV, settings={'input_format_tsv_skip_first_lines': 1} skips a line."

#: Arguments that depend on the format of files.
_BY_FORMAT = (
    *(
        Effect(
            "csv",
            name,
            lambda file_format: file_format.is_csv,
            _OF_CSV,
            _SKIP_IN_TSV if name == "skip_lines" else _TSV_AS_CSV,
        )
        for name in declared(Dialect)
    ),
    Effect("files", "count_again", lambda file_format: file_format.name != "Parquet", "its footers have the rows"),
    Effect(
        "files",
        "unproved_codecs",
        lambda file_format: not file_format.has_footer,
        "its footer proves that an object is whole",
    ),
    Effect(
        "casts",
        "naive_timestamps",
        lambda file_format: file_format.name in _WITH_NAIVE_TIMES,
        "times without a zone are in that of their column",
    ),
    Effect(
        "policies",
        "on_new_columns",
        lambda file_format: file_format.names_columns,
        "its files do not name their columns",
        is_of_rows=True,
    ),
)
#: Arguments about files of any format.
_OF_FILES: Mapping[type[Group], tuple[str, ...]] = {
    Files: ("file_format", "compression"),
    Increments: ("incremental", "max_increments", "object_column"),
    PolicyGroup: ("on_other_periods", "min_object_age_seconds"),
}

#: Group and name → effect. All other arguments always have an effect.
EFFECTS: Mapping[tuple[str, str], Effect] = {
    (effect.group, effect.name): effect
    for effect in (*_BY_FORMAT, *(Effect(kind.group, name) for kind, names in _OF_FILES.items() for name in names))
}


@dataclass(frozen=True)
class Switch:
    """Arguments that other arguments switch off."""

    names: tuple[str, ...]
    beside: str
    is_off: Callable[[Mapping[str, Any]], bool]
    reason: str
    way_out: str = "Leave one of them out."


_HOLDING = ("on_failed_check", "on_shrink", "on_target_changed")

#: Ungrouped arguments that others switch off.
_IN_NO_GROUP = (MERGE_HEALTH,)

#: Policies about checks are examined only if the load's checks are known.
SWITCHES = (
    Switch(
        ("max_increments", "object_column"),
        "with increments={'incremental': False}",
        lambda all_of: not all_of["incremental"],
        "each load reads all of the period",
    ),
    Switch(
        ("on_shrink",),
        "with policies={'max_shrink_fraction': 1}",
        lambda all_of: bool(all_of["max_shrink_fraction"] == 1),
        "a period may lose all of its bytes",
    ),
    Switch(
        ("on_failed_check",),
        "without checks",
        lambda all_of: "checks" in all_of and not all_of["checks"],
        "no check can fail",
        "Leave it out, or give checks={…}.",
    ),
    Switch(
        ("hold_limit_days",),
        f"unless one of {', '.join(_HOLDING)} is 'hold'",
        lambda all_of: "hold" not in [all_of[name] for name in _HOLDING],
        "no rows are held",
        "Leave it out, or give policies={'on_failed_check': 'hold'}.",
    ),
    Switch(
        (MERGE_HEALTH.name,),
        "without wait_for_merges=True",
        lambda all_of: not all_of.get("wait_for_merges"),
        "the load does not wait for merges",
        "Leave it out, or give wait_for_merges=True.",
    ),
)


def check_switches(groups: Sequence[Group], arguments: Mapping[str, Any]) -> None:
    """Check that no argument switches off another.

    Raises:
        ConfigurationError: If an argument has no effect.
    """
    given = {name for group in groups for name in group.changes}
    given |= {
        argument.name
        for argument in _IN_NO_GROUP
        if arguments.get(argument.name, argument.default) not in (argument.default, {})
    }
    of_groups = {name: getattr(group, name) for group in groups for name in declared(type(group))}
    all_of = {**arguments, **of_groups}
    for switch in SWITCHES:
        if switch.is_off(all_of) and (off := [name for name in switch.names if name in given]):
            raise ConfigurationError(
                f"{written_name(off[0])} has no effect {switch.beside}: {switch.reason}. {switch.way_out}"
            )


def written_name(name: str) -> str:
    """Return an argument as users write it, with its group if it has one."""
    return next((kind[name].written for kind in map(declared, GROUPS.values()) if name in kind), name)


def check_effects(given: Iterable[tuple[str, str]], file_format: Format) -> None:
    """Check that arguments have an effect on files of a format.

    Raises:
        ConfigurationError: If an argument has no effect.
    """
    for effect in (EFFECTS[key] for key in given if key in EFFECTS):
        if not effect.applies_to(file_format):
            raise ConfigurationError(
                f"{effect.key} has no effect on {file_format.name}: {effect.reason}. {effect.way_out}"
            )


def about_files(given: Iterable[tuple[str, str]]) -> list[str]:
    """Return the arguments that have no effect without files."""
    return [EFFECTS[key].key for key in given if key in EFFECTS and not EFFECTS[key].is_of_rows]
