"""The documentation builds without a warning, its examples are true, and it knows every public name."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
import textwrap
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sphinx.search.en import SearchEnglish

from airflow_provider_chs3.cli.arguments import parser
from tests import tested
from tests.support import operator_pages
from tests.support.doc_pages import PAGES, ROOT, _blocks, commands
from tests.support.messages import is_part, messages

REPOSITORY = "https://github.com/owner/name"

#: Names that the parts of a DAG on a page may use: each is imported where the page first uses it.
PRELUDE = """
from datetime import datetime, timedelta
from airflow.sdk import DAG, ObjectStoragePath, task
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.sources.clickhouse import ClickHouseRows
from airflow_provider_chs3.sources.delta import DeltaTable
from airflow_provider_chs3.sources.iceberg import IcebergTable
from airflow_provider_chs3.sources.azure import AzureBlobs
from airflow_provider_chs3.sources.gcs import GcsObjects
from airflow_provider_chs3.sources.hdfs import HdfsFiles
from airflow_provider_chs3.sources.mysql import MySqlRows
from airflow_provider_chs3.sources.postgres import PostgresRows
from airflow_provider_chs3.sources.s3 import S3Objects
from airflow_provider_chs3.transfers.azure_blob_to_clickhouse import AzureBlobToClickHouseOperator
from airflow_provider_chs3.transfers.clickhouse_to_clickhouse import ClickHouseToClickHouseOperator
from airflow_provider_chs3.transfers.clickhouse_to_s3 import ClickHouseToS3Operator
from airflow_provider_chs3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
from airflow_provider_chs3.transfers.gcs_to_clickhouse import GCSToClickHouseOperator
from airflow_provider_chs3.transfers.hdfs_to_clickhouse import HdfsToClickHouseOperator
from airflow_provider_chs3.transfers.iceberg_to_clickhouse import IcebergToClickHouseOperator
from airflow_provider_chs3.transfers.kafka_to_s3 import KafkaToS3Operator
from airflow_provider_chs3.transfers.mysql_to_clickhouse import MySqlToClickHouseOperator
from airflow_provider_chs3.transfers.postgres_to_clickhouse import PostgresToClickHouseOperator
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_chs3.operators.clickhouse import ClickHouseOperator
from airflow_provider_chs3.sensors.clickhouse import ClickHouseSensor
from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
with DAG(dag_id="example", schedule=None):
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """All pages as HTML, for every test of them: it takes half a minute, as it imports what it documents."""
    out = tmp_path_factory.mktemp("docs")
    strictly = ["--quiet", "--fail-on-warning", "--keep-going", "--nitpicky", "--doctree-dir", str(out / "doctrees")]
    # Nearly all that it makes stays to the end: looking for garbage in it takes a quarter of its time.
    sphinx = "import gc, sys; gc.disable(); from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", sphinx, *strictly, str(ROOT / "docs"), str(out / "html")]
    environment = {**os.environ, "CHS3_PROJECT_URL": REPOSITORY}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment), out / "html"


def test_they_build_without_a_warning(built: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    done, _ = built
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["tutorial", "how-to/nightly"])
def test_a_page_leads_to_where_it_is_edited(page: str, built: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    _, html = built
    assert f'href="{REPOSITORY}/edit/main/docs/{page}.md"' in (html / f"{page}.html").read_text(encoding="utf-8")


def _public_names() -> Iterator[str]:
    for folder in ("operators", "transfers", "sensors", "triggers"):
        for module in pkgutil.iter_modules([str(ROOT / "airflow_provider_chs3" / folder)]):
            if module.name.startswith("_"):
                continue
            yield from _defined_in(f"airflow_provider_chs3.{folder}.{module.name}")
    for name in ("exceptions", "hooks.clickhouse", "testbed.pytest_plugin", "testbed.trips"):
        yield from _defined_in(f"airflow_provider_chs3.{name}")


def _defined_in(module_name: str) -> Iterator[str]:
    for name, value in vars(importlib.import_module(module_name)).items():
        # A fixture is an object that wraps its function.
        is_ours = getattr(inspect.unwrap(value), "__module__", "") == module_name
        if is_ours and not name.startswith(("_", "pytest_")):
            yield f"{module_name}.{name}"


def test_the_api_reference_has_every_public_name(built: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    _, html = built
    inventory = zlib.decompress((html / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode()
    described = {line.split()[0] for line in inventory.splitlines()}
    assert [name for name in _public_names() if name not in described] == []


def test_each_operator_has_a_page_and_each_page_an_operator() -> None:
    assert sorted(operator_pages.PAGES) == sorted({*operator_pages.operators(), "scheduled_load"})


def test_the_operators_pages_have_their_templated_fields(
    built: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    expected = {name: set(operator.template_fields) for name, operator in operator_pages.operators().items()}
    told = {}
    for name in expected:
        field = re.search(r"Templated fields.*?<dd.*?</dd>", _operators_html(name, built[1]), re.DOTALL)
        told[name] = set(re.findall(r'class="pre">(\w+)<', field[0])) if field else None
    assert told == expected


def test_the_operators_pages_have_the_arguments_of_their_bases_or_lead_to_them(
    built: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    silent = {}
    for name, operator in operator_pages.operators().items():
        told = set(re.findall(r"<li><p><strong>(\w+)</strong>", _operators_html(name, built[1])))
        # Fields of the UI, not arguments.
        arguments = {*operator.template_fields} - {"insert_sql"}
        if "the arguments of every load](../arguments.md)" not in operator_pages.section(name, "Arguments"):
            silent[name] = sorted(arguments - told)
    assert {name: arguments for name, arguments in silent.items() if arguments} == {}


def _operators_html(name: str, html: Path) -> str:
    page = html / "reference" / "operators" / f"{operator_pages.PAGES[name].stem}.html"
    return page.read_text(encoding="utf-8")


def test_the_operators_pages_have_an_example_and_every_key_of_the_result() -> None:
    without_example, missing = [], {}
    for name in operator_pages.PAGES:
        text = operator_pages.text_of(name)
        if f"    {name}(" not in text and f" = {name}(" not in text:
            without_example.append(name)
        told = set(re.findall(r"`(\w+)`", operator_pages.section(name, "Result")))
        if keys := operator_pages.keys_of_result(name) - told:
            missing[name] = keys
    assert (without_example, missing) == ([], {})


def test_the_errors_of_a_load_are_those_of_the_package() -> None:
    rows = re.findall(r"^\| (`.*?) \|", operator_pages.section("S3ToClickHouseOperator", "Errors"), re.MULTILINE)
    errors = [error for row in rows for error in re.findall("`([^`]+)`", row)]
    assert errors
    assert [error for error in errors if not any(is_part(error, message) for message in messages())] == []


def _findings() -> Iterator[tuple[str, str]]:
    """Row of the tables at the top of the benchmarks, and the text of the section that it links to."""
    folder = ROOT / "docs"
    top, *sections = re.split(r"^## ", (folder / "benchmarks.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    texts = {}
    for section in sections:
        title, _, text = section.partition("\n")
        included = re.findall(r"{include} (benchmarks/\w+\.md)", text)
        texts[re.sub(r"[^\w ]", "", title.lower()).replace(" ", "-")] = text + "".join(
            (folder / name).read_text("utf-8") for name in included
        )
    for row, anchor in re.findall(r"^(\|.*)\[[^]]*\]\(#([\w-]+)\) \|$", top, re.MULTILINE):
        yield row, texts[anchor]


def test_the_findings_of_the_benchmarks_are_in_the_tables_that_they_link_to() -> None:
    figures = {(row, text): re.findall(r"\d+\.\d+|\d[\d,]+,\d+", row) for row, text in _findings()}
    assert figures
    assert [row for (row, _), found in figures.items() if not found] == []
    assert [
        (row, each)
        for (row, text), found in figures.items()
        for each in found
        if not re.search(rf"(?<![\d.,]){re.escape(each)}(?!\d)", text)
    ] == []


def test_the_landing_page_links_to_each_how_to() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    how_tos = {page.stem for page in (ROOT / "docs" / "how-to").glob("*.md")}
    assert set(re.findall(r"\]\(how-to/([\w-]+)\.md\)", text.partition("\n## How to\n")[2])) == how_tos


#: A search → the page that has to come up.
SEARCHED = {
    "idempotent": "protocol",
    "exactly once": "protocol",
    "overwrite partition": "how-to/replace",
    "backfill": "how-to/backfill",
    "incremental load": "how-to/nightly",
    "deduplication": "limits",
    "clickhouse cloud": "limits",
    "hive": "reference/arguments",
    "upsert": "limits",
    "retry": "alternatives",
    "template fields": "reference/operators/s3-to-clickhouse",
}
#: A search → the page that has to come first: the search lists entries of the index before all else.
ENTRIES_OF_INDEX = {
    "late-arriving": "how-to/nightly",
    "overwritten file": "how-to/nightly",
    "by day": "reference/periods",
    "idempotent": "protocol",
    "alert": "how-to/alerts",
    "deadline": "how-to/alerts",
    "wrong credentials": "how-to/credentials",
}


def test_the_search_finds_the_pages(built: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    _, html = built
    index = json.loads((html / "searchindex.js").read_text("utf-8").removeprefix("Search.setIndex(").removesuffix(")"))
    assert {
        words: [index["docnames"][page] for page, *_ in index["indexentries"].get(words, ())]
        for words in ENTRIES_OF_INDEX
    } == {words: [page] for words, page in ENTRIES_OF_INDEX.items()}
    assert [
        (words, page)
        for words, page in SEARCHED.items()
        for word in words.split()
        if index["docnames"].index(page) not in _pages_with(word, index)
    ] == []


def _pages_with(word: str, index: dict[str, Any]) -> set[int]:
    stem = SearchEnglish({}).stem(word)
    found = [index[kind].get(stem, []) for kind in ("terms", "titleterms")]
    return {each for pages in found for each in ([pages] if isinstance(pages, int) else pages)}


def test_the_tests_that_pages_name_are_there() -> None:
    pages = [*PAGES, ROOT / "CONTRIBUTING.md"]
    named = {name for page in pages for name in re.findall(r"`(tests/[\w/]+\.py[\w:]*)`", page.read_text("utf-8"))}
    assert named
    assert [name for name in sorted(named) if not _is_there(*name.split("::"))] == []


def _is_there(path: str, *inside: str) -> bool:
    source = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else None
    return source is not None and all(re.search(rf"^ *(class|def) {each}\b", source, re.MULTILINE) for each in inside)


def test_airflow_takes_the_examples(airflow_db: Path, tmp_path: Path) -> None:
    refused = {}
    for number, (place, block) in enumerate(_blocks("python").items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        if error := _refusal(block, folder):
            refused[place] = error
    assert refused == {}


def test_the_dags_that_pages_include_come_with_their_imports() -> None:
    bare = []
    for page in PAGES:
        for block in re.findall(r"^```{literalinclude}.*?^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE):
            is_of_dag = "/dags/" in block and "python" in block and "end-before" not in block
            if is_of_dag and ":start-at: from __future__" not in block:
                bare.append(f"{page.relative_to(ROOT)}: {block}")
    assert bare == []


def test_the_examples_import_or_take_for_granted_what_they_name(tmp_path: Path) -> None:
    files = {}
    for number, (place, block) in enumerate(_blocks("python").items()):
        files[tmp_path / f"{number}.py"] = place
        (tmp_path / f"{number}.py").write_text(_as_file(block))
    command = [
        "ruff",
        "check",
        "--isolated",
        "--no-cache",
        "--select",
        "F821",
        "--output-format",
        "json",
        str(tmp_path),
    ]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    assert [(files[Path(each["filename"])], each["message"]) for each in found] == []


def _as_file(block: str) -> str:
    """An example as a file; the prelude comes before a part of a DAG."""
    return block if _is_whole(block) else PRELUDE + textwrap.indent(block, "    ")


def _is_whole(block: str) -> bool:
    return bool(re.search(r"DAG\(|def test_|pytest_plugins", block)) and "import " in block


def test_the_pages_import_what_their_examples_name() -> None:
    modules = {name: line for line in PRELUDE.splitlines()[1:-1] for name in line.split(" import ")[1].split(", ")}
    imported: dict[str, str] = {}
    missing = []
    for place, block in _blocks("python").items():
        page = place.split(":")[0]
        imported[page] = imported.get(page, "") + "\n".join(re.findall(r"^ *from .*", block, re.MULTILINE))
        code = re.sub(r'"[^"\n]*"', "", block)
        used = {name for name in modules if re.search(rf"(?<![\w.`]){name}\b", code)}
        missing += [(place, modules[name]) for name in used if not re.search(rf"\b{name}\b", imported[page])]
    assert missing == []


def test_the_shell_takes_the_commands() -> None:
    checked = {
        place: subprocess.run(["sh", "-n"], input=block, capture_output=True, text=True, check=False).stderr
        for place, block in _blocks("sh").items()
    }
    assert {place: error for place, error in checked.items() if error} == {}


def test_the_command_line_takes_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    refused = []
    for place, arguments in commands():
        try:
            parser().parse_args(arguments)
        except SystemExit:
            refused.append((place, capsys.readouterr().err.splitlines()[-1]))
    assert refused == []


def _refusal(block: str, folder: Path) -> object:
    """What Airflow says against an example, which is in a folder of its own."""
    from tests.support.dag_bag import DagBag

    for name in re.findall(r'"([\w/]+\.(?:json|sql))"', block):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}", encoding="utf-8")
    (folder / f"example_{folder.name}.py").write_text(_as_file(block))
    bag = DagBag(folder)
    return bag.import_errors or (None if bag.dags or re.search("def test_|pytest_plugins", block) else "It has no DAG.")


def test_the_connections_of_the_examples_are_right() -> None:
    assert [place for place, block in _blocks("json").items() if not _is_right_connection(block)] == []


def _is_right_connection(block: str) -> bool:
    from airflow.providers.common.compat.sdk import Connection

    from airflow_provider_chs3.client.connection import ConnectionOptions
    from airflow_provider_chs3.sources.hdfs.webhdfs import WebHdfsAccess

    given = json.loads(block)
    if "conn_type" not in given:
        given = {"conn_type": "chs3", "host": "clickhouse-1.example.com", "extra": given}
    connection = Connection(conn_id="example", **given | {"extra": json.dumps(given["extra"])})
    if connection.conn_type in ("chs3", "clickhouse"):
        return bool(ConnectionOptions.from_airflow(connection).hosts)
    if connection.conn_type == "webhdfs":
        return WebHdfsAccess.of(connection).urls == ("http://namenode:9870/webhdfs/v1",)
    return connection.conn_type in ("aws", "iceberg", "wasb")


def test_the_table_of_tested_servers_is_that_of_the_runs():
    assert tested.TABLE.read_text(encoding="utf-8") == tested.table()
