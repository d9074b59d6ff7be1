"""Globs that match given objects, as every table function understands them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from airflow_provider_chs3.core.files.prefixes import shared_prefix

#: Characters that are literal in every table function; all others are matched by a glob.
_PLAIN = re.compile(r"[A-Za-z0-9/_.=-]*")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9/_.=-]")
#: Keys with wildcards that are listed in braces: each takes a server some 3 ms, for its regular expression.
_FEW = 100


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

    Keys are listed in braces, so that hardly any other object is opened: an INSERT reads everything its glob matches,
    and `_path IN` only filters the rows. Those of plain characters are by themselves, as servers then list nothing.
    Many others need one wildcard, with one glob per level if any contains braces, as `**` does not match those.
    """
    plain, others = list[str](), list[str]()
    for path in paths:
        (plain if _PLAIN.fullmatch(path, len(base)) else others).append(path)
    are_few = len(others) <= _FEW
    for group in filter(None, (plain, others if are_few else [])):
        yield _names([path[len(base) :] for path in group]), tuple(group)
    any_braces = any(brace in path for path in others for brace in "{}")
    levels: dict[int, list[str]] = defaultdict(list)
    for path in () if are_few else others:
        levels[path.count("/") if any_braces else 0].append(path)
    for level in levels.values():
        yield _wildcard([path[len(base) :] for path in level], any_braces=any_braces), tuple(level)


def _names(keys: Sequence[str]) -> str:
    prefix = _shared_prefix(keys)
    folder = prefix[: prefix.rfind("/") + 1]
    names = list(dict.fromkeys(glob_of_key(key[len(folder) :]) for key in keys))
    return f"{folder}{names[0]}" if len(names) == 1 else f"{folder}{{{','.join(names)}}}"


def _wildcard(keys: Sequence[str], *, any_braces: bool) -> str:
    prefix = _shared_prefix(keys)
    levels = keys[0][len(prefix) :].count("/")
    return prefix + (any_name(levels) if any_braces else "**")


def _shared_prefix(keys: Sequence[str]) -> str:
    return plain_prefix(shared_prefix([keys[0], keys[-1]]))
