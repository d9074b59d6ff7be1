"""Describe a file that ClickHouse cannot read, in a sentence: the place, the reason, and what to do."""

from __future__ import annotations

import re

from airflow_provider_chs3.core.model.store_kind import Format
from airflow_provider_chs3.exceptions import ClickHouseServerError

#: Where it stopped; the row is that of a piece where pieces are parsed side by side.
_FILE = re.compile(r"\(in file/uri (.*?)\)(?:: While|$)", re.MULTILINE)
_ROW = re.compile(r"\(at row (\d+)\)")
_KEY = re.compile(r"\(while reading the value of key (.*?)\)")
#: How an error of looking for columns wraps the one of the file.
_WRAPPED = re.compile(r"Error:\s*Code: \d+\. (.*?)(?: \([A-Z_0-9]+\))? \(version ", re.DOTALL)
_SENDER = re.compile(r"^Received from \S+\. ")
#: Then follow the place of the error, SQL, or advice about settings that would let values go.
_AFTER_THE_REASON = re.compile(
    r":? ?\((?:at row|in file|while read|consider|transform)|: [Ww]hile [a-z]+ing |[:.] In scope"
    r"|\. If (?:you want|it happens)|, enable setting|\. In JSON input formats you can|\n"
)
_SHOWN_CHARACTERS = 200
_WHERE_TYPES_ARE_GUESSED = (
    "If the file is right, its values are of more types than the server's guess from its first lines: create the table "
    "yourself, with columns that hold every value."
)
_ESCAPED_KEY = re.compile(r"element with name '(.*\\u[0-9a-fA-F]{4}.*?)'")
#: Parts of messages that ask for another fix than that of the file.
_WAYS_OUT = (
    (
        "input_format_tsv_crlf_end_of_line",
        "Its lines end with \\r\\n, as on Windows: set settings={'input_format_tsv_crlf_end_of_line': 1}, or "
        "write it with \\n.",
    ),
    (
        r'<BACKSLASH><DOUBLE QUOTE>"\s+ERROR',
        "Its quotes seem to be escaped by a backslash, which ClickHouse does not know in CSV. Write them doubled: in "
        "Spark option('escape', '\"'), in pandas without escapechar; or write TSV, as MySQL does without FIELDS.",
    ),
    (r"CR\) not followed by", "Its lines end with \\r alone: write it with \\n, or \\r\\n."),
    ("Not an Arrow file", "An IPC stream is another format: write it with pyarrow.ipc.new_file, or as Parquet."),
    (
        r"Unsupported Arrow type|IPC reader does not support",
        "Leave the column out with columns=[…] or select={…}, or write it as a plain type, such as a list, a text or "
        "an integer.",
    ),
    (
        "INT96 timestamp out of range",
        "Write times beyond the years 1678 to 2261 as microseconds (in Spark, "
        "spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS), or leave the column out with columns=[…].",
    ),
    (
        "requires too much memory for decoding",
        "It was compressed with a larger window than servers allow by default (zstd --long): "
        "settings={'zstd_window_log_max': 31} reads it.",
    ),
    (
        r"surrogate",
        "Half of a surrogate pair (\\ud800) is not a character. Fix the file, or set settings="
        "{'input_format_json_throw_on_bad_escape_sequence': 0}: such escapes then stay as written, in loaded "
        "fields and in others.",
    ),
    (
        r"Malformed (?:snappy )?compressed page|Corrupt (?:snappy|Lz4) compressed data",
        "It is damaged, or it is valid but the servers cannot read it: for a page (version 2) in which all values "
        "are NULL, Spark writes nothing where the servers expect Snappy or LZ4. Leave the column out with "
        "columns=[…], or write the file with zstd, or with pages of version 1.",
    ),
    (
        r"inflate failed|ZSTD|LZ4|lzma|LZMA|[Bb]rotli",
        "It is damaged, or not compressed as its key says: write it again, or set files={'compression': …}.",
    ),
    (
        r"types are not allowed inside Variant",
        "ClickHouse cannot read a JSON null into a Dynamic column where NULL must stay NULL: leave the key out of "
        "such lines, which means NULL, too, or make the column Nullable of the type that it holds.",
    ),
    (r"[Dd]uplicate (column|field)|column with this name already exists", "Rename one of them in the file."),
)


def file_of(error: ClickHouseServerError) -> str:
    """Return the path of the file that an error names; empty if it names none."""
    named = _FILE.search(error.message)
    return named[1] if named else ""


def reason_of(error: ClickHouseServerError) -> str:
    """Return why something cannot be read or converted: ClickHouse's own words, without SQL and place."""
    wrapped = _WRAPPED.search(error.message)
    said = _SENDER.sub("", wrapped[1] if wrapped else error.message).strip()
    return _AFTER_THE_REASON.split(said)[0].strip(" :.")[:_SHOWN_CHARACTERS]


def unreadable(
    path: str, file_format: Format, error: ClickHouseServerError, *, names_lines: int = 0, is_guessed: bool = False
) -> str:
    """Return the message about a file that cannot be read: the place, ClickHouse's reason, and what to do."""
    row, key, escaped = (pattern.search(error.message) for pattern in (_ROW, _KEY, _ESCAPED_KEY))
    number = int(row[1]) - names_lines if row else 0
    where = f"row {number:,} of {path}" if number else path
    column = f", column {key[1]!r}" if key else ""
    if escaped:
        return (
            f"{where}{column} has the key '{escaped[1]}', written with escapes, which ClickHouse does not recognize as "
            "a Tuple's element. Write keys as UTF-8: json.dumps(…, ensure_ascii=False) in Python."
        )
    way_out = _WHERE_TYPES_ARE_GUESSED if is_guessed else "Fix the file."
    if file_format.is_csv and not is_guessed:
        way_out = "Fix the file, or describe how its fields are written in csv={…}."
    way_out = next((way for pattern, way in _WAYS_OUT if re.search(pattern, error.message)), way_out)
    return f"{where}{column} cannot be read as {file_format.name}: {reason_of(error)}. {way_out}"
