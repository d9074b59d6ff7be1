"""A case: files of any format, loaded without `select` and with `select={c: c}` for each column."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from airflow.providers.common.compat.sdk import AirflowFailException
from clickhouse_driver.errors import ServerException

from airflow_provider_chs3.exceptions import Chs3Error
from tests.fidelity.by_clickhouse import NotWrittenError
from tests.fidelity.cases import Case
from tests.fidelity.column_types import backticked, read_in
from tests.fidelity.formats import FORMATS, body_of, formats_read_by, packed
from tests.fidelity.generate import generate
from tests.fidelity.pens import NoSuchValueError
from tests.fidelity.running import read_back
from tests.support.lake import Lake

SAME, REFUSED, OF_EITHER = "the same rows", "both refused", "one of both refused"
DIFFERENT, NONE = "other rows with select", "no case"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case."""

    kind: str
    case: str = ""
    details: str = ""


def run(lake: Lake, seed: int, number: int, *, is_oldest: bool = False) -> Outcome:
    """Make a case, load it in both ways, and compare."""
    choose = random.Random(f"{seed}:{number}")
    try:
        case = generate(choose, formats=formats_read_by(is_oldest=is_oldest))
        if "select" in case.arguments:
            return Outcome(NONE)
        case.arguments |= _options(choose, case)
        with read_in(case.zone):
            return _run(case, lake, f"selected_{seed}_{number}")
    except (NoSuchValueError, NotWrittenError, pa.ArrowNotImplementedError, pa.ArrowInvalid, ServerException):
        # An older server has not all of the types.
        return Outcome(NONE)


def _options(choose: random.Random, case: Case) -> dict[str, Any]:
    """Options that change what fields mean: a marker of NULL that is in the file, as most others would do nothing."""
    options: dict[str, Any] = {"null_as_default": True} if choose.random() < 0.3 else {}
    if FORMATS[case.format].family == "csv":
        cells = [raw for file in case.files for lane in file.lanes for raw, _ in lane.cells]
        marker = choose.choice(cells or [b""]).decode("utf-8", "replace")
        usable = marker and marker.isprintable() and "\ufffd" not in marker
        dialect: dict[str, Any] = {"null": marker} if usable and choose.random() < 0.6 else {}
        options["csv"] = dialect | ({"trim": True} if choose.random() < 0.3 else {})
    return options


def _run(case: Case, lake: Lake, name: str) -> Outcome:
    bodies = [packed(body_of(file, FORMATS[case.format], lake.cluster.nodes[0]), file) for file in case.files]
    for file, body in zip(case.files, bodies, strict=True):
        lake.put(f"{name}/{case.period}/{file.name}", body)
    shown = f"{case.format}, {case.created_by}, {case.arguments}"
    plain = _loaded(case, lake, name, key=name)
    selected = _loaded(case, lake, f"{name}_select", key=name, select=True)
    messages = [each for each in (plain, selected) if isinstance(each, str)]
    if messages:
        details = f"without: {_told(plain)}; with: {_told(selected)}"
        return Outcome(REFUSED if len(messages) == 2 else OF_EITHER, shown, details)
    # As shown, not-a-number equals itself, and rows whose markers became the same id have one order.
    rows = [sorted(map(repr, each)) for each in (plain, selected)]
    return Outcome(SAME if rows[0] == rows[1] else DIFFERENT, shown, f"{rows[0]}, and with select {rows[1]}")


def _told(loaded: list[dict[str, Any]] | str) -> str:
    return loaded if isinstance(loaded, str) else f"{len(loaded)} rows"


def _loaded(case: Case, lake: Lake, table: str, *, key: str, select: bool = False) -> list[dict[str, Any]] | str:
    """The rows after a load, or its refusal."""
    lake.table = table
    lake.on_every_node(f"CREATE TABLE {lake.database}.{table} {case.created_by}")
    names = [column.name for column in case.columns]
    # Without a header, fields are called by their places.
    fields = names if FORMATS[case.format].has_names else [f"c{place}" for place, _ in enumerate(names, 1)]
    every = dict(zip(names, map(backticked, fields), strict=True)) if select else {}
    try:
        lake.load(key=f"{key}/{{YYYY-MM}}/", period=case.period, select=every, **case.arguments)
        return read_back(case, lake)
    except (AirflowFailException, Chs3Error) as error:
        return str(error)
    finally:
        lake.on_every_node(f"DROP TABLE {lake.database}.{table} SYNC")
