"""docs/troubleshooting.md has each message of this package that does not say what to do, and none of others."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.messages import is_part, known_codes, messages

PAGE = (Path(__file__).parents[1] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
#: The code spans in the first column of its tables: parts of messages, with `…` for what varies.
ENTRIES = [entry for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE) for entry in re.findall("`([^`]+)`", row)]

#: A message that says what to do has one of these after a comma, a colon or a full stop.
_VERBS = (
    "add check compact convert correct create end fix free grant install land leave let load look make name pass put "
    "quote remove rename replace restore rewrite select set switch try upgrade use wait write"
)
_WAY_OUT = re.compile(rf"[:.;,)] (or |else |then )?(if [^:.;]*[,:] )?({'|'.join(_VERBS.split())})\b", re.IGNORECASE)


def test_the_source_has_messages_and_the_page_entries():
    assert len(messages()) > 100
    assert len(ENTRIES) > 100


def test_each_message_says_what_to_do_or_has_an_entry():
    silent = [message for message in messages() if not _WAY_OUT.search(message)]
    unexplained = [message for message in silent if not any(is_part(entry, message) for entry in ENTRIES)]
    assert [f"{messages()[message]}: {message}" for message in unexplained] == [], (
        "Let these say what to do, or put a part of each in a table of docs/troubleshooting.md."
    )


def test_each_entry_is_part_of_a_message():
    assert [entry for entry in ENTRIES if not any(is_part(entry, message) for message in messages())] == []


def test_a_code_of_clickhouse_has_an_entry():
    in_page = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", PAGE, re.MULTILINE) for code in row.split(",")}
    assert in_page == known_codes()
