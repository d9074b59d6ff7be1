"""Globs that match given objects, as every table function understands them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from airflow_provider_chs3.core.source.prefixes import shared_prefix

#: Characters that are literal in every table function; all others are matched by a glob.
_PLAIN = re.compile(r"[A-Za-z0-9/_.=-]*")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9/_.=-]")


def plain_prefix(text: str) -> str:
    """Return the longest prefix of a key that is literal in a glob."""
    matched = _PLAIN.match(text)
    return matched[0] if matched else ""


def any_name(levels: int) -> str:
    """Return a glob for all names this many levels down. `**` matches no braces below its first level."""
    return "*" + "/*" * levels


def glob_of_key(key: str) -> str:
    """Return a glob that matches one key, and rarely another."""
    return _NOT_PLAIN.sub("?", key)


def grouped_by_glob(paths: Sequence[str], *, base: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Group objects into few globs: one, except for keys with special characters of globs.

    Keys of plain characters are listed in braces, so that only these objects are opened: an INSERT reads everything
    its glob matches, and `_path IN` only filters the rows. Other keys need wildcards, with one glob per level if any
    contains braces, as `**` does not match those.

    Args:
        paths: The objects' paths, sorted.
        base: The part of all paths before the key.
    """
    groups: dict[int, list[str]] = defaultdict(list)
    any_braces = any(brace in path for path in paths for brace in "{}")
    for path in paths:
        is_plain = _PLAIN.fullmatch(path, len(base))
        groups[-1 if is_plain else path.count("/") if any_braces else 0].append(path)
    for kind, some in groups.items():
        keys = [path[len(base) :] for path in some]
        yield _names(keys) if kind == -1 else _wildcard(keys, any_braces=any_braces), tuple(some)


def _names(keys: Sequence[str]) -> str:
    if len(keys) == 1:
        return keys[0]
    prefix = _shared_prefix(keys)
    folder = prefix[: prefix.rfind("/") + 1]
    return f"{folder}{{{','.join(key[len(folder) :] for key in keys)}}}"


def _wildcard(keys: Sequence[str], *, any_braces: bool) -> str:
    if len(keys) == 1:
        return glob_of_key(keys[0])
    prefix = _shared_prefix(keys)
    levels = keys[0][len(prefix) :].count("/")
    return prefix + (any_name(levels) if any_braces else "**")


def _shared_prefix(keys: Sequence[str]) -> str:
    return plain_prefix(shared_prefix([keys[0], keys[-1]]))
