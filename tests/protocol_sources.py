"""The sources that a load goes through: the results of long runs count for as long as these stay the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import airflow_provider_chs3

_PACKAGE = Path(airflow_provider_chs3.__file__).parent
#: The page, the sensors and the test bed are not part of a load.
_LOAD = ("core", "hooks", "operators", "exceptions.py")
#: What becomes of a value on its way from a file into its column, and nothing of when it is written or published.
_OF_VALUES = frozenset(
    f"{name}.py"
    for name in (
        "casts",
        "dialect",
        "file_kinds",
        "footers",
        "misfits",
        "number_casts",
        "row_wise",
        "scalar_casts",
        "server_casts",
        "strict_casts",
        "structs",
        "text_casts",
        "text_types",
        "time_casts",
        "unfit_values",
        "unreadable",
    )
)


def protocol_hash() -> str:
    """Digest all that a load goes through."""
    return digest(_sources())


def steps_hash() -> str:
    """Digest what a load does, step by step; how it reads values may change."""
    return digest(path for path in _sources() if path.name not in _OF_VALUES)


def digest(paths: Iterable[Path]) -> str:
    """Digest files: their paths below the project, and what is in them.

    Args:
        paths: Of the files, in their order.
    """
    found = hashlib.sha256()
    for path in paths:
        found.update(path.relative_to(_PACKAGE.parent).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def _sources() -> list[Path]:
    paths = (_PACKAGE / name for name in _LOAD)
    return [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))]
