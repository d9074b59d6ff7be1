"""Commands and statements of the documentation."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _blocks(language: str) -> dict[str, str]:
    """Each code block of the pages, by page and line."""
    found = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            line = text.count("\n", 0, match.start()) + 1
            found[f"{page.relative_to(ROOT)}:{line}"] = match[1]
    assert found
    return found


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each `chs3 …` that stands on a line of its own."""
    count = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for found in re.finditer(r"^(?: {4})?(?:\$ )?(?:\./dev run |airflow )?chs3 (.* --.*)$", text, re.MULTILINE):
            command = shlex.split(found[1], comments=True)
            if command and not {"|", ">", "…"} & {*command} and "…" not in found[1]:
                count += 1
                yield f"{page.relative_to(ROOT)}: {found[0].strip()}", command
    assert count > 20


def statements() -> Iterator[tuple[str, str]]:
    """Each block of SQL, and each SELECT that stands on a line of its own, by page and line."""
    yield from _blocks("sql").items()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in re.finditer(r"^\n {4}(SELECT .*)$", text, re.MULTILINE):
            yield f"{page.relative_to(ROOT)}: {found[1]}", found[1]
