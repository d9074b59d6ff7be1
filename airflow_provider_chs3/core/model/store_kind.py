"""Differences between storages in ClickHouse, the formats, and the contents of a period: objects, or rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_chs3.core.model.models import Manifest, Setting, SettingValues
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import quantity, size_text
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError

#: As ClickHouse takes the endings of keys.
_COMPRESSIONS = {
    **{"gz": "gzip", "gzip": "gzip", "zst": "zstd", "zstd": "zstd", "lz4": "lz4", "xz": "xz", "lzma": "xz"},
    **{"br": "br", "brotli": "br", "deflate": "deflate", "snappy": "snappy", "bz2": "bz2"},
}


@dataclass(frozen=True, slots=True)
class Format:
    """The properties of a format for reading."""

    name: str
    is_typed: bool = False
    names_columns: bool = True
    has_footer: bool = False

    @property
    def is_csv(self) -> bool:
        """Check whether files are CSV, of any dialect."""
        return self.name.startswith("CSV")


def compression_of_key(key: str) -> str:
    """Return ClickHouse's name for the compression of a key's extension; `none` if it has no such extension."""
    return _COMPRESSIONS.get(key.lower().rpartition(".")[2], "none")


#: Name → format, of those that can be loaded.
FORMATS = {
    format_.name: format_
    for format_ in (
        Format("Parquet", is_typed=True, has_footer=True),
        Format("ORC", is_typed=True, has_footer=True),
        Format("Arrow", is_typed=True, has_footer=True),
        Format("Native", is_typed=True),
        Format("CSV", names_columns=False),
        Format("CSVWithNames"),
        Format("TabSeparated", names_columns=False),
        Format("TabSeparatedWithNames"),
        Format("JSONEachRow"),
    )
}

_BY_ENDING = {
    "parquet": "Parquet",
    "orc": "ORC",
    "arrow": "Arrow",
    "native": "Native",
    "csv": "CSVWithNames",
    "tsv": "TabSeparatedWithNames",
    "jsonl": "JSONEachRow",
    "ndjson": "JSONEachRow",
    "json": "JSONEachRow",
}


def format_named(name: str) -> Format:
    """Return the format with this name."""
    if name not in FORMATS:
        raise ConfigurationError(
            f"files['file_format']={name!r} is not one that can be loaded: use one of {', '.join(FORMATS)}."
        )
    return FORMATS[name]


def format_of_key(key: str) -> Format:
    """Return the format that a key's extension means; `.csv` and `.tsv` files are assumed to have a header."""
    words = key.rsplit("/", 1)[-1].lower().split(".")
    if len(words) > 1 and words[-1] in _COMPRESSIONS:
        words.pop()
    if words[-1] not in _BY_ENDING:
        raise ConfigurationError(
            f"The ending of {key!r} names no format: set it, such as files={{'file_format': 'Parquet'}}."
        )
    return FORMATS[_BY_ENDING[words[-1]]]


class Contents:
    """Words for the contents of a period: objects, each a file that holds values, unless a subclass says otherwise."""

    name = "objects"
    holder = "file"

    def count(self, manifest: Manifest) -> int:
        """Return the number of objects for results and records."""
        return len(manifest.objects)

    def sizes(self, manifest: Manifest) -> str:
        """Return what a period has, for the log."""
        return manifest.sizes

    def inserted(self, count: int) -> str:
        """Return what an insert reads, for the log."""
        return quantity(count, "object")

    def having(self, manifest: Manifest, rows: str) -> str:
        """Return how many rows the source has."""
        verb = "holds" if len(manifest.objects) == 1 else "hold"
        return f"its {quantity(len(manifest.objects), 'object')} {verb} {rows} rows"

    def none_of(self, period: Period, place: str, pattern: str) -> str:
        """Say that a period has none."""
        return f"No {self.name} for {period} under {place}/{pattern}"

    def with_columns(self, place: str) -> str:
        """Return what has the columns to load, for messages."""
        return place

    def none_found(self, period: Period | None, pattern: str) -> str:
        """Return what was looked for and not found."""
        return f"no object{f' of {period}' if period else ''} fits {pattern!r}"

    def of_other_periods(self, period: Period, place: str, counts: str) -> SourceError:
        """Return the error of a period that has rows of other periods."""
        return SourceError(
            f"The objects of {period} hold rows of other periods (partition: rows): {counts}. The period was not "
            "published. policies={'on_other_periods': 'leave_out'} loads the period without them."
        )


class _DataFiles(Contents):
    def of_other_periods(self, period: Period, place: str, counts: str) -> SourceError:
        # Left out, they might be in no period at all.
        return SourceError(
            f"Files of {period} in {place} hold rows that the table puts into other periods (partition: rows): "
            f"{counts}. The period was not published. Set the time zone of the table's partition key for the "
            "source, timezone=…, and policies={'on_other_periods': 'leave_out'}: each period then takes its rows of "
            "all files that may have some."
        )


class _Rows(Contents):
    name, holder = "rows", "row"

    def count(self, manifest: Manifest) -> int:
        return 0

    def sizes(self, manifest: Manifest) -> str:
        return f"about {size_text(manifest.size_bytes)}"

    def inserted(self, count: int) -> str:
        return "the rows"

    def having(self, manifest: Manifest, rows: str) -> str:
        return f"its source has {rows} rows"

    def none_found(self, period: Period | None, pattern: str) -> str:
        return f"no rows{f' of {period}' if period else ''} by {pattern!r}"

    def of_other_periods(self, period: Period, place: str, counts: str) -> SourceError:
        # Left out, they would be in no period at all.
        return SourceError(
            f"{place} has rows of {period} that the table puts into other periods (partition: rows): {counts}. "
            "The period was not published. Set the time zone of the table's partition key: timezone=…."
        )


class _Derived(_Rows):
    def none_of(self, period: Period, place: str, pattern: str) -> str:
        return f"No rows for {period} in {place}, which the SELECT reads"

    def with_columns(self, place: str) -> str:
        return f"the SELECT over {place}"

    def of_other_periods(self, period: Period, place: str, counts: str) -> SourceError:
        return SourceError(
            f"The SELECT makes rows of other periods out of {period} of {place} (partition: rows): {counts}. The "
            "period was not published. Keep the time of the rows in the SELECT, and partition both tables by it in one "
            "time zone."
        )


OBJECTS = Contents()
DATA_FILES: Contents = _DataFiles()
ROWS: Contents = _Rows()
DERIVED: Contents = _Derived()


@dataclass(frozen=True, kw_only=True)
class StoreKind:
    """A kind of source, with all that ClickHouse does differently for it."""

    title: str
    function: str
    privilege: str
    glob_argument: str = ""
    shape: tuple[str, ...] = ()
    bytes_event: str | None = None
    time_event: str | None = None
    exact: tuple[Setting, ...] = ()
    path: str = "_path"
    unreadable: tuple[str, ...] = ()
    quick_failure: SettingValues = field(default_factory=dict)
    no_cache: SettingValues = field(default_factory=dict)
    probe_settings: SettingValues = field(default_factory=dict)
    contents: Contents = OBJECTS
    connection: str = ""
    server_remedy: str = ""
    format: Format | None = None

    @property
    def look_settings(self) -> SettingValues:
        """Settings of statements that inspect files which were listed."""
        return {**{setting.name: setting.value for setting in self.exact}, **self.no_cache, **self.quick_failure}


def exact_files(prefix: str) -> tuple[Setting, ...]:
    """Return the settings without which an insert could lose files silently."""
    return (
        Setting(f"{prefix}_throw_on_zero_files_match", 1, "finding no file is an error"),
        Setting(f"{prefix}_ignore_file_doesnt_exist", 0, "a missing file is an error"),
        # No empty object is listed. To skip them, a server that looks for columns fetches the beginning of each first.
        Setting(f"{prefix}_skip_empty_files", 0, "an empty file is an error"),
    )
