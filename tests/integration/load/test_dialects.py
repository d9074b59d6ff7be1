"""CSV in other dialects, and the errors for files that cannot be read."""

from __future__ import annotations

import pytest

from tests.integration.valued import AT, PREFIX, create, values
from tests.support.lake import Lake
from tests.support.refusal import refused


def test_a_file_with_another_delimiter(lake: Lake) -> None:
    create(lake, "n Int32, s Nullable(String), t String")
    lake.put(PREFIX + "a.csv", f"# made by hand\nts;n;s;t\n{AT};5;NA;'a;b'\n\n".encode())
    dialect = {"delimiter": ";", "null": "NA", "skip_lines": 1, "quote": "'", "blank_lines": "skip_last"}
    refused(lake, "'ts' is missing", csv={})
    lake.load(csv=dialect)
    assert values(lake, "(n, s, t)") == [(5, None, "a;b")]
    assert lake.load(csv=dialect)["status"] == "unchanged"


@pytest.mark.thorough
@pytest.mark.parametrize("select", [{}, {"ts": "ts", "n": "n", "s": "s", "t": "concat(s, '!')"}])
def test_a_field_that_means_null_means_it_in_quotes_too(lake: Lake, select: dict[str, str]) -> None:
    create(lake, "n Nullable(Int32), s Nullable(String), t Nullable(String)")
    body = f'ts,n,s,t\n{AT},"NA","NA","NA"\n{AT},NA,NA,NA\n{AT},1,"x NA","x NA!"\n'
    lake.put(PREFIX + "a.csv", body.encode())
    lake.load(csv={"null": "NA"}, select=select)
    assert values(lake, "(n, s, t)") == [(1, "x NA", "x NA!"), (None, None, None), (None, None, None)]


@pytest.mark.thorough
@pytest.mark.parametrize("select", [{}, {"ts": "ts", "n": "n"}])
def test_a_number_that_means_null_fills_no_column_that_cannot_be_null(lake: Lake, select: dict[str, str]) -> None:
    create(lake, "n Int32")
    lake.put(PREFIX + "a.csv", f"ts,n\n{AT},-1\n".encode())
    refused(lake, "Column 'n' is Int32, but row 1 of .*a.csv has ", csv={"null": "-1"}, select=select)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("file_format", "row"),
    [("CSV", "x;" + AT), ("CSV", '"x;y";' + AT), ("CSV", "7;" + AT), ("TabSeparated", "x\t" + AT)],
)
def test_a_byte_order_mark_without_a_header_is_told_with_the_way_out(lake: Lake, file_format: str, row: str) -> None:
    first = "n Int32" if row[0] == "7" else "s String"
    name = first[0]
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips ({first}, ts DateTime('UTC')) "
        "ENGINE = MergeTree PARTITION BY toYYYYMM(ts) ORDER BY tuple()"
    )
    options = {"file_format": file_format, "csv": {"delimiter": ";"} if file_format == "CSV" else {}}
    lake.put(PREFIX + "a.txt", f"\ufeff{row}\n".encode())
    for select in ({}, {"ts": "c2", name: "c1"}):
        refused(lake, r"a\.txt begins with a byte order mark, which .*: write the file", select=select, **options)
    lake.put(PREFIX + "a.txt", f"{row}\n".encode())
    lake.load(**options)
    written = values(lake, f"toString({name})")
    header = f"{name}{row[-len(AT) - 1]}ts"
    lake.put(PREFIX + "a.txt", f"\ufeff{header}\n{row}\n".encode())
    lake.load(**(options | {"file_format": file_format + "WithNames"}))
    assert values(lake, f"toString({name})") == written


@pytest.mark.thorough
def test_a_value_that_is_no_utf_8_is_shown_with_its_row(lake: Lake) -> None:
    create(lake, "s Decimal(9, 2)")
    lake.put(PREFIX + "a.csv", f"ts,s\n{AT},1\n{AT},".encode() + b"\xa7\xf5\n")
    message = r"'s' is Decimal.*row 2 of .*a\.csv has s=b'\\xa7\\xf5' for it"
    refused(lake, message, file_format="CSVWithNames", select={"ts": "ts", "s": "toDecimal64(s, 2)"})


@pytest.mark.thorough
@pytest.mark.parametrize("select", [{}, {"ts": "ts", "s": "s"}])
def test_a_text_that_means_null_is_told_as_null(lake: Lake, select: dict[str, str]) -> None:
    create(lake, "s String DEFAULT 'no'")
    lake.put(PREFIX + "a.csv", f"ts,s\n{AT},NA\n".encode())
    told = r"Column 's' is String, but row 1 of .* has NULL, or missing, for it .*; casts=\{'null_as_default': True\}"
    refused(lake, told, csv={"null": "NA"}, select=select)
    lake.load(csv={"null": "NA"}, select=select, null_as_default=True)
    assert values(lake, "s") == ["no"]


@pytest.mark.thorough
def test_tsv_has_ways_of_its_own(lake: Lake) -> None:
    create(lake, "s Nullable(String)")
    lake.put(PREFIX + "a.tsv", f'# made by hand\nts\ts\n{AT}\t"a\tb"\n{AT}\tNA\n'.encode())
    refused(lake, "settings={'input_format_tsv_skip_first_lines': 1} skips a line", csv={"skip_lines": 1})
    refused(lake, r"csv={'delimiter': '\\t'}", csv={"null": "NA"})
    lake.load(csv={"delimiter": "\t", "skip_lines": 1, "null": "NA"}, file_format="CSVWithNames")
    assert values(lake, "s") == ["a\tb", None]
    lake.put(PREFIX + "a.tsv", f"# made by hand\nts\ts\n{AT}\ta\\tb\n".encode())
    lake.load(settings={"input_format_tsv_skip_first_lines": 1})
    assert values(lake, "s") == ["a\tb"]


def test_a_lone_quote_tears_no_later_row(lake: Lake) -> None:
    # A server that parses in chunks takes each quote for one that opens or closes a field, and cuts within the note.
    create(lake, "s String, note String")
    note = f"see:\n{AT},inner,x\n{AT},5,z"
    rows = [
        (f'{number}" pipe' if number == 5 else "plain", note if number % 11 == 0 else "short") for number in range(300)
    ]
    body = "".join(f'{AT},{s},"{text}"\n' for s, text in rows)
    lake.put(PREFIX + "a.csv", f"ts,s,note\n{body}".encode())
    refused(lake, "input_format_parallel_parsing cannot be changed", settings={"input_format_parallel_parsing": 1})
    lake.load(settings={"min_chunk_bytes_for_parallel_parsing": 1})
    assert values(lake, "(s, note)") == sorted(rows)


@pytest.mark.thorough
def test_quotes_that_a_backslash_escapes_are_told_with_the_way_out(lake: Lake) -> None:
    create(lake, "s String")
    lake.put(PREFIX + "a.csv", f'ts,s\n{AT},"plain"\n{AT},"say \\"hi\\""\n'.encode())
    refused(lake, "row 2 of .*a.csv cannot be read as CSVWithNames: .*Its quotes seem to be escaped by a backslash")
    lake.put(PREFIX + "a.csv", f'ts,s\n{AT},"plain"\n{AT},"say ""hi"""\n'.encode())
    lake.load()
    assert values(lake, "s") == ["plain", 'say "hi"']


@pytest.mark.thorough
def test_a_missing_column_is_told_with_those_that_are_there(lake: Lake) -> None:
    create(lake, "n Int32")
    lake.put(PREFIX + "a.csv", f"ts;n\n{AT};5\n".encode())
    refused(lake, r"It has 'ts;n'\..*Fields seem to be separated by ';': csv=\{'delimiter': ';'\}")
    lake.put(PREFIX + "a.csv", f"ts,N\n{AT},5\n".encode())
    refused(lake, r"It has 'ts', 'N'\. Names must match exactly, and 'N' does not")


def test_a_line_that_cannot_be_parsed(lake: Lake) -> None:
    create(lake, "n Int32")
    lake.put(PREFIX + "a.csv", f"ts,n\n{AT},1\n{AT},2,3\n".encode())
    refused(lake, "row 2 of .*a.csv cannot be read as CSVWithNames: Expected end of line")
