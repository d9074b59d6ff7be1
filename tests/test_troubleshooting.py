"""docs/troubleshooting.md has every message of this package's errors, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_provider_chs3.core.model.error_codes import known_codes
from tests.messages import messages

PAGE = (Path(__file__).parents[1] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = messages()
#: The code spans in the first column of its tables: parts of messages, with `…` for what varies.
ENTRIES = [entry for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE) for entry in re.findall("`([^`]+)`", row)]


def is_part(entry: str, message: str) -> bool:
    return re.search(".*".join(re.escape(each) for each in entry.split("…")), message, re.DOTALL) is not None


def test_the_source_has_messages_and_the_page_entries():
    assert len(MESSAGES) > 100
    assert len(ENTRIES) > 100


def test_each_message_has_an_entry():
    unexplained = [message for message in MESSAGES if not any(is_part(entry, message) for entry in ENTRIES)]
    assert [f"{MESSAGES[message]}: {message}" for message in unexplained] == [], (
        "docs/troubleshooting.md does not explain these: give a part of each in a table there."
    )


def test_each_entry_is_part_of_a_message():
    assert [entry for entry in ENTRIES if not any(is_part(entry, message) for message in MESSAGES)] == []


def test_a_code_of_clickhouse_has_an_entry():
    in_page = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", PAGE, re.MULTILINE) for code in row.split(",")}
    assert in_page == set(known_codes())
