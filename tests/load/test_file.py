"""Files of loads: what they say is what loads have, and an error names the line of the mistake."""

from __future__ import annotations

import json
import os
import re
import time
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_provider_chs3.core.arguments.load_arguments import COMPRESSION_NAMES, FORMAT_NAMES
from airflow_provider_chs3.core.model.store_kind import FORMATS
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.load import Load, document
from airflow_provider_chs3.load.schema import schema
from airflow_provider_chs3.sources import STORAGES, storage_class
from airflow_provider_chs3.sources.gcs import GcsObjects
from airflow_provider_chs3.sources.s3 import S3Objects

ROOT = Path(__file__).parents[2]
#: A load in lines 3 and 4, to which tests add lines.
LOAD = "loads:\n\n  - table: trips\n    key: s3://lake/{YYYY-MM}/\n"
#: Two, with values of each kind.
TWO_LOADS = """
defaults:
  bucket: lake
  database: taxi
  policies: {keep_versions: 2, on_no_objects: skip}
  csv: {delimiter: ;}
  settings: {max_threads: 2}
loads:
  - table: trips
    key: trips/{YYYY-MM}/*.parquet
  - name: paid
    table: fares
    key: "{YYYY}/"
    database: other
    policies: {keep_versions: 0}
    csv: {"null": NULL-}
    settings: {max_insert_threads: 1, join_use_nulls: true, ratio: 0.5}
    columns: [fare]
"""


def read(folder: Path, text: str, name: str = "loads.yaml") -> tuple[Load, ...]:
    (folder / name).write_text(text, encoding="utf-8")
    return Load.read(folder / name)


def changes(folder: Path, text: str) -> list[dict[str, Any]]:
    return [load.arguments for load in read(folder, text)]


def error(folder: Path, text: str, name: str = "loads.yaml") -> str:
    """The whole error, without the folder."""
    with pytest.raises(ConfigurationError) as raised:
        read(folder, text, name)
    return str(raised.value).replace(f"{folder}{os.sep}", "")


def test_a_load_has_its_arguments_and_else_the_defaults(tmp_path: Path) -> None:
    shared = {"bucket": "lake", "csv": {"delimiter": ";"}, "settings": {"max_threads": 2}}
    assert changes(tmp_path, TWO_LOADS) == [
        {
            **shared,
            "name": "trips",
            "table": "trips",
            "key": "trips/{YYYY-MM}/*.parquet",
            "database": "taxi",
            "policies": {"keep_versions": 2, "on_no_objects": "skip"},
        },
        {
            "name": "paid",
            "table": "fares",
            "key": "{YYYY}/",
            "bucket": "lake",
            "database": "other",
            "policies": {"keep_versions": 0, "on_no_objects": "skip"},
            "csv": {"delimiter": ";", "null": "NULL-"},
            "settings": {"max_insert_threads": 1, "join_use_nulls": True, "ratio": 0.5},
            "columns": ("fare",),
        },
    ]


def test_null_takes_a_default_away(tmp_path: Path) -> None:
    (load,) = read(
        tmp_path,
        "defaults: {policies: {keep_versions: 2}, cluster: all}\n" + LOAD + "    policies: null\n    cluster:\n",
    )
    assert (load.policies, load.cluster) == (None, None)


@pytest.mark.parametrize(
    ("defaults", "given", "place"),
    [
        (
            "{bucket: lake, key: x}",
            "objects: {storage: gcs, object_name: y}",
            (None, None, GcsObjects(object_name="y")),
        ),
        ("{objects: {storage: s3, key: x}}", "key: s3://lake/y", ("s3://lake/y", None, None)),
        ("{bucket: lake}", "key: s3://other/y", ("s3://other/y", None, None)),
        ("{bucket: lake}", "{key: y, bucket: b}", ("y", "b", None)),
        ("{bucket: lake, key: x}", "{bucket: b}", ("x", "b", None)),
        ("{objects: {storage: s3, key: x}}", "columns: [a]", (None, None, S3Objects(key="x"))),
    ],
)
def test_objects_have_one_place(tmp_path: Path, defaults: str, given: str, place: tuple[Any, ...]) -> None:
    entry = {"table": "t", **yaml.safe_load(given)}
    (load,) = read(tmp_path, f"defaults: {defaults}\nloads:\n  - {json.dumps(entry)}\n")
    assert (load.key, load.bucket, load.objects) == place


def test_json_is_read_as_yaml_is(tmp_path: Path) -> None:
    (of_yaml,) = read(tmp_path, LOAD + "    csv: {delimiter: ;}\n")
    entry = {"table": "trips", "key": "s3://lake/{YYYY-MM}/", "csv": {"delimiter": ";"}}
    text = json.dumps({"$schema": "x.json", "loads": [entry]}, indent="\t")
    (of_json,) = read(tmp_path, text, "loads.json")
    (compact,) = read(tmp_path, json.dumps({"loads": [entry]}, separators=(",", ":")), "compact.json")
    assert of_json == of_yaml == compact


def test_anchors_and_merge_keys_are_followed(tmp_path: Path) -> None:
    text = """
loads:
  - &trips
    table: trips
    key: &key s3://lake/{YYYY-MM}/
    policies: &policies {keep_versions: 2, on_no_objects: skip}
  - <<: *trips
    table: fares
    policies: {<<: *policies, keep_versions: 3}
  - {table: zones, key: *key, policies: {<<: [{keep_versions: 5}, *policies]}}
"""
    assert [(load.name, load.key, load.policies) for load in read(tmp_path, text)] == [
        ("trips", "s3://lake/{YYYY-MM}/", {"keep_versions": 2, "on_no_objects": "skip"}),
        ("fares", "s3://lake/{YYYY-MM}/", {"keep_versions": 3, "on_no_objects": "skip"}),
        ("zones", "s3://lake/{YYYY-MM}/", {"keep_versions": 5, "on_no_objects": "skip"}),
    ]


def test_files_that_it_names_are_relative_to_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "fare.sql").write_text("toDecimal64(fare, 2)\n")
    (tmp_path / "fares.json").write_text('{"fare": "sql/fare.sql", "id": "id"}')
    (tmp_path / "policies.json").write_text('{"keep_versions": 2}')
    (tmp_path / "loads.yaml").write_text(
        "defaults: {policies: policies.json}\n" + LOAD + "    select: fares.json\n    policies: {on_no_objects: skip}\n"
    )
    monkeypatch.chdir(tmp_path.parent)
    (load,) = Load.read(f"{tmp_path.name}/loads.yaml")
    assert load.select == {"fare": "toDecimal64(fare, 2)", "id": "id"}
    assert load.policies == {"keep_versions": 2, "on_no_objects": "skip"}


def test_templates_stay_for_the_task(tmp_path: Path) -> None:
    lines = """    policies: {keep_versions: "{{ params.kept }}"}
    checks: "{{ params.checks }}"
    columns: "{{ params.columns }}"
"""
    (load,) = read(tmp_path, LOAD + lines)
    assert (load.policies, load.checks, load.columns) == (
        {"keep_versions": "{{ params.kept }}"},
        "{{ params.checks }}",
        "{{ params.columns }}",
    )


def test_names_are_taken_as_written(tmp_path: Path) -> None:
    (load,) = read(tmp_path, LOAD + '    csv: {null: ""}\n    select: {2026-01-01: a, yes: b, 010: c, ~: d}\n')
    assert (load.csv, load.select) == ({"null": ""}, {"2026-01-01": "a", "yes": "b", "010": "c", "~": "d"})


def test_a_bound_of_a_check_may_be_a_date(tmp_path: Path) -> None:
    (load,) = read(tmp_path, LOAD + "    checks: {column_mapping: {day: {min: {geq_to: 2026-01-01}}}}\n")
    assert load.checks == {"column_mapping": {"day": {"min": {"geq_to": date(2026, 1, 1)}}}}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("tabel: x", "tabel is not known: do you mean table?"),
        ("policies: {keep_version: 1}", "policies.keep_version is not known: do you mean keep_versions?"),
        ("casts: {zzz: 1}", "casts.zzz is not known: known are null_as_default, lossy_columns, naive_timestamps."),
        ("policies: {keep_versions: '1'}", "policies.keep_versions is '1', a text: use a whole number at least 0."),
        ("policies: {keep_versions: 1.5}", "policies.keep_versions is 1.5, a number: use a whole number at least 0."),
        ("policies: {keep_versions: -1}", "policies.keep_versions=-1 is not allowed: use a whole number at least 0."),
        (
            "policies: {on_no_objects: no}",
            "policies.on_no_objects is no, which YAML reads as false: write that, or quote it, 'no'.",
        ),
        ("policies: fail", "policies is 'fail', a text: use a mapping."),
        (
            "policies: {max_shrink_fraction: .nan}",
            "policies.max_shrink_fraction is .nan, no finite number: write one, or quote it, '.nan'.",
        ),
        ("lookback: 3", "lookback is an argument of scheduled_load, not of a load: set it there."),
        ("select: [a]", "select is a list: use a mapping."),
        (
            "files: {file_format: XLS}",
            f"files.file_format='XLS' is not allowed: use one of {', '.join(FORMATS)}.",
        ),
        (
            "files: {compression: rar}",
            f"files.compression='rar' is not allowed: use one of {', '.join(COMPRESSION_NAMES)}.",
        ),
        ("database: 2026-01-01", "database is 2026-01-01, a date in YAML: quote it, '2026-01-01'."),
        ("database: 2026-13-45", "database is 2026-13-45, which YAML cannot read: quote it, '2026-13-45'."),
        ("database: 12:30", "database is 12:30, which YAML reads as 750: quote it, '12:30'."),
        ("database: true", "database is true, a truth value in YAML: quote it, 'true'."),
        ("database: [a]", "database is a list: use a text."),
        ("clickhouse_conn_id:", "clickhouse_conn_id is empty: use a text."),
        ("distribution: where", "distribution='where' is not allowed: use one of where_read, sharding_key."),
        ("columns: a", "columns is 'a', a text: use a list of texts."),
        ("columns: [a, 1]", "columns[1] is 1, a number in YAML: quote it, '1'."),
        ("select: {fare: 0}", "select.fare is 0, a number in YAML: quote it, '0'."),
        ("settings: {a b: [1]}", "settings['a b'] is a list: use a text or a number."),
        ("csv: {null: NULL}", "csv.null is NULL, empty in YAML: quote it, 'NULL', or set another value."),
        ("csv: {delimiter: ;;}", "csv: csv['delimiter']=';;' is not a single character, such as ';'."),
        ("casts: {lossy_columns: a}", "casts.lossy_columns is 'a', a text: use a list of texts."),
        (
            "checks: {statements: {x: 1}}",
            "checks: checks['statements']['x']=1 is not allowed: write SQL as a text.",
        ),
        ("objects: gcs", f"objects names no storage: use a mapping with storage, one of {', '.join(STORAGES)}."),
        ("objects: {storage: gs}", "objects.storage='gs' is not known: do you mean gcs?"),
        ("objects: {storage: gcs, key: x}", "objects.key is not known: do you mean object_name?"),
        ("objects: {storage: azure}", "objects needs blob: add what is missing."),
        ("objects: {storage: s3, key: 1}", "objects.key is 1, a number in YAML: quote it, '1'."),
        ("table: fares", "table is set twice, first in line 3: leave one out."),
        ("views: !!python/name:os.system x", "views has the tag !!python/name:os.system: leave it out."),
        ("columns: &a [*a]", "columns[0] contains itself: leave the alias out."),
        ("database: {{ params.x }}", "database has no text as a name: quote what begins with a brace."),
        ("policies: {<<: 1}", "policies.<< is no mapping: use an alias of one, such as *base."),
    ],
)
def test_an_error_names_the_line_and_the_place(tmp_path: Path, line: str, told: str) -> None:
    assert error(tmp_path, f"{LOAD}    {line}\n") == f"loads.yaml, line 5, loads[0].{told}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "loads.yaml has no loads: add loads, a list of mappings, each with a table."),
        ("[]", "loads.yaml, line 1 is no mapping: write defaults: and loads: (and $schema:)."),
        ("\nload: []\n", "loads.yaml, line 2, load is not known: do you mean loads?"),
        ("\nloads: []\n", "loads.yaml, line 2, loads is no list of loads: write mappings, each with a table."),
        ("defaults: {}\n", "loads.yaml has no loads: add loads, a list of mappings, each with a table."),
        ("loads:\n  - key: x\n", "loads.yaml, line 2, loads[0]: The load has no table: set table=…."),
        (
            "loads:\n  - table: x\n",
            "loads.yaml, line 2, loads[0]: Nothing says where the objects are: set key=… and bucket=…, or objects=….",
        ),
        (
            LOAD + "    bucket: other\n",
            "loads.yaml, line 3, loads[0]: bucket='other': key='s3://lake/{YYYY-MM}/' names the bucket, too: leave one "
            "out.",
        ),
        (
            LOAD + "    create_table: if_missing\n    columns: [fare]\n",
            "loads.yaml, line 3, loads[0]: create_table='if_missing' creates all columns that the files have, and "
            "columns or select name those to load: leave one of them out.",
        ),
        (
            LOAD + "    fresh_by: 10:00\n",
            "loads.yaml, line 5, loads[0].fresh_by is 10:00, which YAML reads as 600: quote it, '10:00'.",
        ),
        (
            LOAD + "    fresh_by: 7:00 am\n",
            "loads.yaml, line 5, loads[0].fresh_by: fresh_by='7:00 am' is not allowed: set a time of the day, "
            "'07:00', or hours after the period's end, '6h'.",
        ),
        (
            LOAD + "    fresh_by: ''\n",
            "loads.yaml, line 5, loads[0].fresh_by: fresh_by='' is not allowed: set a time of the day, '07:00', or "
            "hours after the period's end, '6h'.",
        ),
        (
            "defaults:\n  timezone: Mars\n" + LOAD,
            "loads.yaml, line 2, defaults.timezone: timezone='Mars' is not known: use a name such as 'Europe/Berlin'.",
        ),
        (
            LOAD + '    name: "two\\nlines"\n',
            "loads.yaml, line 5, loads[0].name='two\\nlines' has a line break or the like: set a name of one line.",
        ),
        (
            LOAD + "    objects: {storage: s3, key: x}\n",
            "loads.yaml, line 3, loads[0]: key: objects=… says where the objects are; leave this out.",
        ),
        ("defaults:\n  table: x\n" + LOAD, "loads.yaml, line 2, defaults.table is of a single load: set it there."),
        (
            LOAD + "  - table: taxi.trips\n    key: s3://lake/x\n",
            "loads.yaml, line 5, loads[1].table names the load 'trips', as line 3 does: "
            "set another name for one of them.",
        ),
        (
            LOAD + "  - table: fares\n    key: s3://lake/x\n    name: trips\n",
            "loads.yaml, line 7, loads[1].name names the load 'trips', as line 3 does: "
            "set another name for one of them.",
        ),
        (
            LOAD.replace("trips", "lake.trips", 1) + "  - {name: more, database: lake, table: trips, key: s3://lake/y}",
            "loads.yaml, line 5, loads[1].table: line 3 loads lake.trips, too, and each of the two would replace the "
            "other's rows of a period. Let one load have the objects of both, such as key: "
            "'*/{YYYY-MM}/*.parquet'; or, if they have no period in common, write them into two files.",
        ),
        (
            "loads:\n  - table: x\n    key: gs://lake/y/\n",
            "loads.yaml, line 2, loads[0]: key='gs://lake/y/' is no URL of this storage, which begins with s3://: set "
            "objects=… for another one, such as GcsObjects; in a file, objects: {storage: gcs, …}.",
        ),
        (
            "loads:\n  - table: '{{ params.t }}'\n    key: s3://lake/x\n",
            "loads.yaml, line 2, loads[0].table is a template: set a name for the load, too.",
        ),
        (
            LOAD + "    columns: [fare, fare]\n",
            "loads.yaml, line 3, loads[0]: columns=['fare', 'fare'] names a column twice.",
        ),
        (
            LOAD + "    columns: []\n",
            "loads.yaml, line 3, loads[0]: columns=[] names no column: leave it out to load all.",
        ),
        (
            "loads:\n  - table: x\n    key: y/\n",
            "loads.yaml, line 2, loads[0]: No bucket: set bucket=…, or name it with key='y/': s3://my-bucket/…",
        ),
        (LOAD + "---\na: 1\n", "loads.yaml, line 5 begins another document: write it in a file of its own."),
        ("loads: \x01", "loads.yaml, line 1 has the control character '\\x01': leave it out."),
    ],
)
def test_an_error_of_the_file_says_what_to_do(tmp_path: Path, text: str, told: str) -> None:
    assert error(tmp_path, text) == told


def test_a_load_that_is_written_in_python_refuses_the_same_checks() -> None:
    with pytest.raises(ConfigurationError, match=r"checks\['statements'\]\['x'\]=1 is not allowed"):
        Load(table="trips", key="s3://lake/{YYYY-MM}/", checks={"statements": {"x": 1}})


def test_no_yaml_is_an_error_with_the_parsers_line(tmp_path: Path) -> None:
    assert re.fullmatch(
        r"loads\.yaml, line 6 is no YAML: while parsing a block collection of line 3, .*\. Check the "
        r"indentation and the quotes there: a text that begins with \{, \[, \* or @ needs quotes, and no "
        r"line begins with a tab\.",
        error(tmp_path, LOAD + "    views: warn\n   - table: x\n"),
    )


def test_formats_are_those_that_can_be_loaded() -> None:
    assert tuple(FORMATS) == FORMAT_NAMES


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Load.read(tmp_path / "no.yaml")
    assert str(raised.value) == (
        f"{tmp_path}/no.yaml cannot be read: No such file or directory. In a DAG file, "
        "Path(__file__).with_name('no.yaml') is the file beside it."
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("no.json", "select='no.json' cannot be read: No such file or directory. Set its path from the folder {}."),
        (
            "{fare: no.sql}",
            "select.fare='no.sql' cannot be read: No such file or directory. Set its path from the folder {}.",
        ),
        ("list.json", "select='list.json' holds no JSON object: write one, such as {{\"max_threads\": 8}}."),
        ("number.json", "select.fare is a number: use a text."),
    ],
)
def test_a_file_that_it_names_has_the_line_of_its_name(tmp_path: Path, given: str, told: str) -> None:
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "number.json").write_text('{"fare": 0}')
    expected = told.format(tmp_path)
    assert error(tmp_path, f"{LOAD}    select: {given}\n") == f"loads.yaml, line 5, loads[0].{expected}"


def many_loads(count: int) -> str:
    entry = """  - name: load_{0}
    table: taxi.table_{0}
    key: table_{0}/{{YYYY-MM}}/*.parquet
    columns: [a, b, c]
    policies:
      on_no_objects: skip
      max_shrink_fraction: 0.3
    settings:
      max_threads: 4
    tuning: {{memory_share: 0.4}}
"""
    return "defaults: {bucket: lake}\nloads:\n" + "".join(entry.format(number) for number in range(count))


def test_twenty_loads_are_read_in_a_moment(tmp_path: Path) -> None:
    assert len(read(tmp_path, many_loads(20))) == 20
    seconds = []
    for _ in range(10):
        start = time.process_time()
        Load.read(tmp_path / "loads.yaml")
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.03


def test_without_libyaml_it_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = many_loads(2)
    before = read(tmp_path, text)
    monkeypatch.setattr(document, "_LOADER", yaml.SafeLoader)
    assert read(tmp_path, text) == before
    assert error(tmp_path, text + "    tuning: {}\n") == (
        "loads.yaml, line 23, loads[1].tuning is set twice, first in line 22: leave one out."
    )


SCHEMA = schema()


def refused(given: Any) -> bool:
    jsonschema = pytest.importorskip("jsonschema")
    return not jsonschema.Draft7Validator(SCHEMA).is_valid(given)


def test_the_schema_takes_what_is_right() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(yaml.safe_load((ROOT / "dags" / "loads.yaml").read_text()), SCHEMA)
    jsonschema.validate(yaml.safe_load(many_loads(2)), SCHEMA)
    objects = {"storage": "gcs", "object_name": "x", "bucket": None}
    load = {"table": "t", "objects": objects, "policies": {"keep_versions": "{{ x }}"}, "select": "x.json", "csv": None}
    jsonschema.validate({"$schema": "x", "defaults": {"columns": ["a"]}, "loads": [load]}, SCHEMA)


@pytest.mark.parametrize(
    "given",
    [
        {"tabel": "x"},
        {"table": 1},
        {"policies": {"keep_version": 1}},
        {"policies": {"keep_versions": -1}},
        {"policies": {"keep_versions": "1"}},
        {"policies": {"max_shrink_fraction": 2}},
        {"policies": {"hold_limit_days": 0}},
        {"policies": {"on_no_objects": False}},
        {"policies": "fail"},
        {"columns": "a"},
        {"select": {"fare": 0}},
        {"distribution": "where"},
        {"objects": {"storage": "s4", "key": "x"}},
        {"objects": {"storage": "gcs", "key": "x"}},
        {"objects": {"storage": "azure"}},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(tmp_path: Path, given: dict[str, Any]) -> None:
    document = {"loads": [{"table": "trips", "key": "x", **given}]}
    assert refused(document)
    assert error(tmp_path, json.dumps(document), "loads.json").startswith("loads.json, line 1, loads[0]")


@pytest.mark.parametrize("given", [{}, {"loads": []}, {"loads": [{"key": "x"}]}, {"load": [{"table": "x"}]}])
def test_the_schema_asks_for_loads_with_tables(given: dict[str, Any]) -> None:
    assert refused(given)


def test_the_schema_has_every_argument_and_storage() -> None:
    load = SCHEMA["properties"]["loads"]["items"]
    names = [*Load.__dataclass_fields__]
    assert [*SCHEMA["definitions"]] == [*load["properties"]] == names
    assert [*SCHEMA["properties"]["defaults"]["properties"]] == [
        name for name in names if name not in ("name", "table")
    ]
    storages = {
        choice["properties"]["storage"]["const"]: [*choice["properties"]][1:]
        for choice in SCHEMA["definitions"]["objects"]["anyOf"][:-1]
    }
    assert storages == {name: [*storage_class(name).arguments()] for name in STORAGES}


def test_the_schema_says_what_each_name_means() -> None:
    silent = [name for name, argument in SCHEMA["definitions"].items() if not argument["description"]]
    silent += [
        f"{name}.{field.name}"
        for name in STORAGES
        for field in storage_class(name).arguments().values()
        if not field.help
    ]
    assert silent == []


def test_a_due_time_that_is_a_template_needs_its_task(tmp_path: Path) -> None:
    (load,) = read(tmp_path, LOAD + '    fresh_by: "{{ params.due }}"\n')
    with pytest.raises(ConfigurationError, match=r"fresh_by='{{ params.due }}' .* name the load with --dag"):
        _ = load.due
