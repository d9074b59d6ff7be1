"""The sources that a load goes through: the results of long runs count for as long as these stay the same."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import airflow_provider_chs3

_PACKAGE = Path(airflow_provider_chs3.__file__).parent
_ROOT = _PACKAGE.parent
_OPERATOR = _PACKAGE / "transfers" / "s3_to_clickhouse.py"
#: The page is imported for its links.
_LOAD = ("core", "client", "hooks", "operators", "sources", "triggers", "exceptions.py")
#: Modules about a value's way from a file into its column, not about when it is written or published.
_OF_VALUES = (
    "core/files/declared_values.py",
    "core/files/file_kinds.py",
    "core/files/parquet_footers.py",
    "core/files/parse_errors.py",
    "core/files/row_wise_select.py",
    "core/files/structs.py",
    "core/files/text_fields.py",
    "core/load/misfits.py",
    "core/sql/server_casts.py",
    "core/sql/casts.py",
    "core/sql/column_types.py",
    "core/sql/number_casts.py",
    "core/sql/select_conversions.py",
    "core/sql/text_casts.py",
    "core/sql/time_casts.py",
    "core/sql/unfit_values.py",
)


@cache
def protocol_hash() -> str:
    """Digest all that a load goes through."""
    return digest(_sources())


@cache
def steps_hash() -> str:
    """Digest what a load does, step by step; how it reads values may change."""
    return digest(path for path in _sources() if not path.relative_to(_PACKAGE).as_posix().startswith(_OF_VALUES))


def digest(paths: Iterable[Path]) -> str:
    """Digest files: their paths below the project, and what is in them."""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.relative_to(_ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def _sources() -> list[Path]:
    """Return the modules that the operator imports, directly or not: no page, no doctor, no test bed."""
    found, left = set[Path](), [_OPERATOR]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left.extend(_imported(path))
    return sorted(found)


def _imported(path: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_PACKAGE.name):
            module = _ROOT.joinpath(*(node.module or "").split("."))
            candidates = [module.with_suffix(".py"), *(module / f"{name.name}.py" for name in node.names)]
            yield from (candidate for candidate in candidates if candidate.exists() and _is_of_load(candidate))


def _is_of_load(path: Path) -> bool:
    return path.relative_to(_PACKAGE).parts[0] in _LOAD
