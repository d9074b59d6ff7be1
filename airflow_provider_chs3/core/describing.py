"""The columns of single files: of those whose names or types can be read from nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_chs3.core.columns import TEXT_TYPE
from airflow_provider_chs3.core.errors import is_of_servers
from airflow_provider_chs3.core.source_files import Files
from airflow_provider_chs3.core.sql import Sql
from airflow_provider_chs3.core.steps import Ask, Say, Steps, Together
from airflow_provider_chs3.exceptions import ClickHouseServerError, SourceError

#: How the names of formats end whose files begin with a line of names.
_WITH_NAMES = "WithNames"
#: Files that are looked into at the same time: each look waits for the storage nearly all of its time.
_AT_A_TIME = 16


def describe(files: Files, paths: Sequence[str]) -> Steps[dict[str, dict[str, str]]]:
    """Columns of single files: path → name → type.

    Args:
        files: How to read them.
        paths: Which of them.

    Raises:
        SourceError: If one cannot be read.
    """
    if len(paths) > _AT_A_TIME:
        yield Say(name=f"Read the columns of {len(paths)} files, {_AT_A_TIME} at a time")
    lanes = tuple(_describe_each(files, lane) for first in range(_AT_A_TIME) if (lane := paths[first::_AT_A_TIME]))
    found: dict[str, dict[str, str]] = {}
    if lanes:
        for described in (yield Together(name=f"Read the columns of {len(paths)} files", workflows=lanes)):
            found |= described
    return {path: found[path] for path in paths}


def _describe_each(files: Files, paths: Sequence[str]) -> Steps[dict[str, dict[str, str]]]:
    by_file = {}
    for path in paths:
        by_file[path] = yield from _describe(files, path)
    return by_file


def _describe(files: Files, path: str) -> Steps[dict[str, str]]:
    glob, has_line_of_names = files.source.glob_of(path), files.format.name.endswith(_WITH_NAMES)
    if not path.endswith(glob):
        yield from _check_matches_alone(files, glob, path)
    function = files.read(glob, on_cluster=False)
    sql = Sql(f"DESCRIBE TABLE {function.text}", function.secrets)
    # Of a file with a line of names these are all that counts; by default 25,000 lines are read, to guess at types.
    lines = {"input_format_max_rows_to_read_for_schema_inference": 1} if has_line_of_names else {}
    try:
        rows = yield Ask(name=f"Read the columns of {path}", sql=sql, settings={**files.look_settings, **lines})
    except ClickHouseServerError as error:
        if is_of_servers(error):
            raise
        if has_line_of_names and "EMPTY_DATA_PASSED" in error.message:
            return (yield from _names_alone(files, glob, path))
        raise SourceError(f"The columns of {path} could not be read as {files.format.name}: {error}") from error
    return {row[0]: row[1] for row in rows}


def _names_alone(files: Files, glob: str, path: str) -> Steps[dict[str, str]]:
    """The columns of a file without rows, whose line of names is the only one."""
    function = files.read(glob, file_format=files.format.name.removesuffix(_WITH_NAMES), on_cluster=False)
    sql = Sql(f"SELECT * FROM {function.text} LIMIT 1", function.secrets)
    rows = yield Ask(name=f"Read the names of {path}", sql=sql, settings=files.look_settings)
    return {str(name): TEXT_TYPE for name in rows[0]} if rows else {}


def _check_matches_alone(files: Files, glob: str, path: str) -> Steps[None]:
    """The columns would be another file's, and values read as its types could change without an error."""
    function = files.read(glob, file_format="One", on_cluster=False)
    sql = Sql(f"SELECT DISTINCT _path FROM {function.text}", function.secrets)
    rows = yield Ask(name=f"Look what looks like {path}", sql=sql, settings=files.look_settings)
    others = sorted(row[0] for row in rows if row[0] != path)
    if others:
        raise SourceError(f"ClickHouse cannot tell {path} from {others[0]} by a glob: rename one of them.")
