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
    r"\btells? (?:no|the|their|its) (?:columns?|rows?|error|period|size|time)\b": "has, gives, shows",
    r"\bwhat tells\b": "what distinguishes, what shows",
    r"\b(?:if (?:it|they)|where (?:it|they)|what is \w+|, which) ha(?:s|ve) none\b": "if there is none, without",
    r"\bthe same for every period\b": "has no period in it",
    r"\bdrops what does not fit\b": "truncates",
    r"\bmeets? no one\b": "goes unnoticed",
    r"\bare the widest of\b": "gets the widest type found in",
    r"\bfirst fix\b": "fix … first",
    r"\bwas told to\b": "say what was done",
    r"\bworth telling\b": "worth reporting",
    r"\bfor want of better\b": "say what is assumed",
    r"\b(?:it|that|which|what) is no (?!longer\b|more\b)": "is not a",
    r"\banew\b": "again",
    r"\bat work\b": "running, active",
    r"\bgo(?:es)? on (?:without|with|under|by itself)\b": "continues",
    r"\b(?:periods?|files?|objects?|rows?|parts?|table) that (?:is|are) to be\b": "periods to load, a table to create",
    r"\bmake room\b": "free some space",
    r"\bno load (?:has )?put there\b": "no load wrote",
    r"\bhides ClickHouse's own\b": "It hides ClickHouse's virtual column",
    r"\b(?:column|key) that says (?:a|the)\b": "decides",
    r"\bof which nothing\b": "that nothing …",
    r"\bby whose\b": "whose",
    r"\bsay with (?:select|csv|naive_timestamps|compression)\b": "give select=…, describe in csv=…",
    r"\bexclude each other\b": "give either … or …",
    r"\bbesides those that\b": "apart from",
    r"\b(?:periods|objects) are loaded one by one: \{": "Loading … one by one:",
    r"\bin mid-\w+": "during the",
    r"\bstands? in another order\b": "are in another order",
    r"\b(?:file|table|disk) lies on\b": "is stored on",
    r"\bcompared letter by letter\b": "match exactly",
    r"\bends? as \w+ ends? them\b": "say how they end",
    r"\bfor all that it\b": "with everything that it",
    r"\bor somebody else who may\b": "somebody with the permission",
    r"\bspeaks? against\b": "is the reason to refuse, prevents",
    r"\b(?:says?|said|known) of (?!all\b)": "about",
    r"\bbecomes? of\b": "happens to",
    r"\bfor ever\b": "forever",
    r"\bat the moment when\b": "just as",
    r"\b(?:is|are|was|were) told\b": "is reported, shown, said",
    r"\bwhat is left of (?:it|them|one)\b": "the rest",
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
