"""Odd turns of English that were found and mended once: sources and docs stay without them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: What is read: the package and its page, the docs, and the files beside them.
READ = ("airflow_provider_chs3", "dags", "docs", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
ENDINGS = (".py", ".ts", ".tsx", ".md")
#: Turns, and what an engineer says instead.
ODD = {
    r"\b(?:tells?|told) of\b": "shows, reports, is about",
    r"\bsays so of\b": "matches",
    r"\btells? (?:no|the|their|its) (?:columns?|rows?|error|month|size|time)\b": "has, gives, shows",
    r"\bwhat tells\b": "what distinguishes, what shows",
    r"\b(?:if (?:it|they)|where (?:it|they)|what is \w+|, which) ha(?:s|ve) none\b": "if there is none, without",
    r"\bthe same for every month\b": "has no month in it",
    r"\bdrops what does not fit\b": "truncates",
    r"\bmeets? no one\b": "goes unnoticed",
    r"\bare the widest of\b": "gets the widest type found in",
    r"\bfirst fix\b": "fix … first",
    r"\bwas told to\b": "say what was done",
    r"\bworth telling\b": "worth reporting",
    r"\bfor want of better\b": "say what is assumed",
}


def test_odd_turns_of_english_do_not_come_back() -> None:
    texts = list(_texts())
    assert len(texts) > 400
    hits = [
        f"{path.relative_to(ROOT)}: {' '.join(found[0].split())!r}: {instead}"
        for path in texts
        for turn, instead in ODD.items()
        # A turn may go over the end of a line, and into the next line of a comment.
        for found in re.finditer(turn.replace(" ", r"\s+(?:#:?\s+)?"), path.read_text("utf-8"), re.IGNORECASE)
    ]
    assert hits == []


def _texts() -> Iterator[Path]:
    for name in READ:
        place = ROOT / name
        for path in place.rglob("*") if place.is_dir() else [place]:
            # Types of the API are generated from it.
            if (
                path.suffix in ENDINGS
                and not path.name.endswith(".d.ts")
                and not {"node_modules", "static"} & set(path.parts)
            ):
                yield path
