"""What Airflow's DAG processor spends on this package: its imports, and the parsing of the example DAGs."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from tests.benchmarks.parser import Parse, Parses, arguments
from tests.benchmarks.rounds import Comparison, Gate, Round, Table, Verdict
from tests.benchmarks.suite import ROOT, TrialContext

TITLE = "DAG parsing"

_MILLISECONDS = "milliseconds"
_PACKAGE = "airflow_provider_chs3"
_LOAD = f"{_PACKAGE}.transfers.s3_to_clickhouse"
_GROUP = f"{_PACKAGE}.transfers.scheduled_load"
_ALL = [
    _LOAD,
    _GROUP,
    *(f"{_PACKAGE}.operators.{name}" for name in ("emit_period", "ledger", "optimize", "plan_loads", "retries")),
    f"{_PACKAGE}.sensors.merge_health",
]
_OWN = "this package: all operators and sensors, without what they import from others"
_WHOLE = "this package: all operators and sensors"
_GOAL_MILLISECONDS = 30
_IMPORTS = [
    Parse(name="Airflow's PythonOperator", modules=["airflow.providers.standard.operators.python"]),
    Parse(name="Airflow's SQL operators", modules=["airflow.providers.common.sql.operators.sql"]),
    Parse(name="Airflow's S3 operators", modules=["airflow.providers.amazon.aws.operators.s3"]),
    Parse(name="this package: S3ToClickHouseOperator", modules=[_LOAD]),
    Parse(name="this package: scheduled_load", modules=[_GROUP]),
    Parse(name=_WHOLE, modules=_ALL),
    Parse(name=_OWN, modules=_ALL, without_others=True),
]
_TWENTY = """
from datetime import datetime

from airflow.sdk import DAG
{import_line}

with DAG("twenty", schedule=None, start_date=datetime(2026, 1, 1)):
    for number in range(20):
        {load}
"""
_OF_A_FILE = "loads of a file"
_EMPTY = "EmptyOperator, in the same groups"
#: The tasks of the DAG of many tables, none of which does anything.
_EMPTIES = """
from datetime import datetime

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, Param, TaskGroup, task_group
from airflow.timetables.interval import CronDataIntervalTimetable

with DAG(
    "twenty",
    schedule=CronDataIntervalTimetable("0 3 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    params={"periods": Param([], type="array")},
    default_args={"retries": 3},
):
    for number in range(20):
        with TaskGroup(group_id=f"t{number}"):
            plan, end = EmptyOperator(task_id="plan"), EmptyOperator(task_id="end")

            @task_group(group_id="period")
            def load_each(periods):
                load, merges = EmptyOperator(task_id="load"), EmptyOperator(task_id="merges")
                load >> merges >> EmptyOperator(task_id="emit", outlets=[Asset(f"chs3_t{number}")])
                [load, merges] >> end

            load_each.expand(periods=plan.output) >> end
"""
#: The comparisons for a further file of twenty loads: the same tasks of Airflow, and an operator that is one task.
_TWENTY_BY = {
    _OF_A_FILE: (ROOT / "dags" / "chs3_many_tables.py").read_text(encoding="utf-8"),
    _EMPTY: _EMPTIES,
    "scheduled_load": _TWENTY.format(
        import_line=f"from {_GROUP} import scheduled_load",
        load='scheduled_load(group_id=f"load_{number}", bucket="b", key="{YYYY-MM}/*", table=f"t{number}", lookback=2)',
    ),
    "S3ToRedshiftOperator": _TWENTY.format(
        import_line="from airflow.providers.amazon.aws.transfers.s3_to_redshift import S3ToRedshiftOperator",
        load='S3ToRedshiftOperator(task_id=f"load_{number}", s3_bucket="b", s3_key="k", table=f"t{number}")',
    ),
}


def run(bench: TrialContext) -> Iterator[Comparison | Table]:
    """Measure imports, then DAG files."""
    rounds = 1 if bench.is_quick else bench.rounds
    with tempfile.TemporaryDirectory(prefix="chs3-bench-") as name:
        folder = Path(name)
        files = _example_dags() if bench.is_quick else _example_dags() | _gallery(folder)
        parses = [
            *_IMPORTS,
            *(Parse(name=title, file=str(file)) for title, file in files.items()),
            *(Parse(name=_loaded(title), modules=_ALL, file=str(file)) for title, file in files.items()),
            *_twenty(folder),
        ]
        bench.say(f"{len(parses)} imports and files in turns, rounds: {rounds}")
        measured = _measure(parses, rounds=rounds, folder=folder)
    yield Comparison(
        title="Imports in a new process of the DAG processor, which has Airflow and its SDK loaded",
        variants=[each.name for each in _IMPORTS],
        figures=[_MILLISECONDS],
        rounds=measured,
        gates=[
            Gate(variant=name, figure=_MILLISECONDS, at_most=_GOAL_MILLISECONDS, is_ratio=False)
            for name in (_OWN, _WHOLE)
        ],
    )
    yield _files(list(files), measured)
    yield _further_files(measured)


def _loaded(title: str) -> str:
    return f"{title}, package loaded"


def _example_dags() -> dict[str, Path]:
    return {file.name: file for file in sorted((ROOT / "dags").glob("*.py"))}


def _gallery(folder: Path) -> dict[str, Path]:
    page, files = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8"), {}
    found = re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    for number, (heading, source) in enumerate(found):
        file = folder / f"gallery_{number}.py"
        file.write_text(source, encoding="utf-8")
        files[f"gallery: {heading}"] = file
    return files


def _twenty(folder: Path) -> Iterator[Parse]:
    loads = [{"table": f"t{number}", "key": f"t{number}/{{YYYY-MM}}/*.parquet"} for number in range(20)]
    of_all = {"bucket": "taxi", "database": "taxi", "policies": {"keep_versions": 1}}
    (folder / "loads.yaml").write_text(json.dumps({"defaults": of_all, "loads": loads}), encoding="utf-8")
    for number, (name, source) in enumerate(_TWENTY_BY.items()):
        file = folder / f"twenty_{number}.py"
        file.write_text(source, encoding="utf-8")
        yield Parse(name=name, file=str(file))
        yield Parse(name=_further(name), file=str(file), is_further=True)


def _further(name: str) -> str:
    return f"{name}, a further file"


def _measure(parses: Sequence[Parse], *, rounds: int, folder: Path) -> list[Round]:
    result_file = folder / "seconds.json"
    command = arguments(Parses(parses=parses, rounds=rounds, result_file=str(result_file)))
    subprocess.run(command, cwd=ROOT, check=True)
    measured = json.loads(result_file.read_text(encoding="utf-8"))
    return [{name: {_MILLISECONDS: seconds * 1000} for name, seconds in each.items()} for each in measured]


def _files(titles: Sequence[str], measured: Sequence[Round]) -> Table:
    rows = []
    for title in titles:
        parsed, loaded = (median(each[name][_MILLISECONDS] for each in measured) for name in (title, _loaded(title)))
        rows.append(
            {
                "DAG file": title,
                "milliseconds": round(parsed, 1),
                "milliseconds with the package already loaded": round(loaded, 1),
            }
        )
    return Table(title="Parsing a DAG file in a new process of the DAG processor", rows=rows)


def _further_files(measured: Sequence[Round]) -> Table:
    def found(name: str) -> float:
        return round(median(each[name][_MILLISECONDS] for each in measured), 1)

    ours = found(_further(_OF_A_FILE)) - found(_further(_EMPTY))
    verdict = Verdict(
        claim=f"a further file of twenty loads, milliseconds beyond {_EMPTY}: at most {_GOAL_MILLISECONDS}",
        found=f"{ours:.1f}",
        is_met=ours <= _GOAL_MILLISECONDS,
    )
    return Table(
        title="A DAG file of twenty loads: the first such file that a process parses, and each further one",
        rows=[
            {
                "twenty of": name,
                "milliseconds, the first file": found(name),
                "milliseconds, a further file": found(_further(name)),
            }
            for name in _TWENTY_BY
        ],
        verdicts=[verdict],
    )
