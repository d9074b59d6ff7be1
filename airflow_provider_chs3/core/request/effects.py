"""Refuse arguments of groups that have no effect, by the format of files and by the kind of source.

docs/reference/arguments.md shows this table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from airflow_provider_chs3.core.source.csv_dialect import Dialect
from airflow_provider_chs3.core.source.formats import FORMATS, Format
from airflow_provider_chs3.core.values.arguments import Group, declared
from airflow_provider_chs3.core.values.load_arguments import Files, Increments, PolicyGroup
from airflow_provider_chs3.exceptions import ConfigurationError

#: Their readers give times without a zone.
_WITH_NAIVE_TIMES = ("Parquet", "ORC", "Arrow")


@dataclass(frozen=True)
class Effect:
    """An argument, and where it has an effect.

    Args:
        group: The group.
        name: Its name.
        of: Whether it has one on files of a format.
        why: Why it has none on others.
        way_out: What to do there.
        is_of_rows: Whether it has one where there are no files.
    """

    group: str
    name: str
    of: Callable[[Format], bool] = lambda file_format: True
    why: str = ""
    way_out: str = "Leave it out."
    is_of_rows: bool = False

    @property
    def key(self) -> str:
        """The argument as users write it."""
        return f"{self.group}[{self.name!r}]"

    @property
    def where(self) -> str:
        """The formats on which it has an effect, and whether it has one on rows of a database, for people."""
        formats = [name for name, each in FORMATS.items() if self.of(each)]
        shown = "all formats" if len(formats) == len(FORMATS) else ", ".join(formats)
        return f"{shown}; rows of databases and of SELECTs" if self.is_of_rows else shown


_OF_CSV = "csv={…} describes CSV alone"
_TSV_AS_CSV = (
    "Leave it out; for a TSV file with quotes instead of backslashes, give files={'file_format': 'CSVWithNames'} and "
    "csv={'delimiter': '\\t'}."
)
_SKIP_IN_TSV = "Leave it out; in TSV, settings={'input_format_tsv_skip_first_lines': 1} skips a line."

#: Those that depend on the format of files.
_BY_FORMAT = (
    *(
        Effect("csv", name, lambda each: each.is_csv, _OF_CSV, _SKIP_IN_TSV if name == "skip_lines" else _TSV_AS_CSV)
        for name in declared(Dialect)
    ),
    Effect("files", "count_again", lambda each: each.name != "Parquet", "its footers have the rows"),
    Effect("files", "unproved_codecs", lambda each: not each.has_footer, "its footer proves that an object is whole"),
    Effect(
        "casts",
        "naive_timestamps",
        lambda each: each.name in _WITH_NAIVE_TIMES,
        "times without a zone are in that of their column",
    ),
    Effect(
        "policies",
        "on_new_columns",
        lambda each: each.names_columns,
        "its files do not name their columns",
        is_of_rows=True,
    ),
)
#: Further ones that are about files, whatever their format.
_OF_FILES: Mapping[type[Group], tuple[str, ...]] = {
    Files: ("file_format", "compression"),
    Increments: ("incremental", "max_increments", "object_column"),
    PolicyGroup: ("on_other_periods", "min_object_age_seconds"),
}

#: Group and name → where it has an effect. All other arguments have one everywhere.
EFFECTS: Mapping[tuple[str, str], Effect] = {
    (each.group, each.name): each
    for each in (*_BY_FORMAT, *(Effect(kind.group, name) for kind, names in _OF_FILES.items() for name in names))
}


def check_effects(given: Iterable[tuple[str, str]], file_format: Format) -> None:
    """Check that arguments have an effect on files of a format.

    Args:
        given: Group and name of arguments that differ from their defaults.
        file_format: The format.

    Raises:
        ConfigurationError: If one has none.
    """
    for each in (EFFECTS[key] for key in given if key in EFFECTS):
        if not each.of(file_format):
            raise ConfigurationError(f"{each.key} has no effect on {file_format.name}: {each.why}. {each.way_out}")


def about_files(given: Iterable[tuple[str, str]]) -> list[str]:
    """Return those of the arguments that have no effect where there are no files.

    Args:
        given: Group and name of arguments that differ from their defaults.
    """
    return [EFFECTS[key].key for key in given if key in EFFECTS and not EFFECTS[key].is_of_rows]
