"""A DAG processor's share of parsing: a process that has Airflow loaded, and forks for each file, as Airflow does.

python -m tests.benchmarks.parser '<Parses as JSON>'
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_OWN = "airflow_provider_chs3"


@dataclass(frozen=True, kw_only=True)
class Parse:
    """One measurement, in a process of its own."""

    name: str
    modules: Sequence[str] = ()
    file: str = ""
    without_others: bool = False
    is_further: bool = False


@dataclass(frozen=True, kw_only=True)
class Parses:
    """Measurements in turns."""

    parses: Sequence[Parse]
    rounds: int
    result_file: str


def arguments(parses: Parses) -> list[str]:
    """The command that measures them."""
    return [sys.executable, "-m", __name__, json.dumps(asdict(parses))]


def _load_airflow() -> None:
    """Load what Airflow's DAG processor has loaded when it forks, and what every DAG file takes."""
    import airflow.dag_processing.processor  # noqa: F401
    from airflow.sdk import DAG, BaseHook, BaseOperator, BaseSensorOperator, TaskGroup  # noqa: F401

    import tests.support.dag_bag  # noqa: F401


def _seconds(parse: Parse, others: Sequence[str]) -> float:
    _import(others if parse.without_others else [])
    if not parse.file:
        return _timed(lambda: _import(parse.modules))
    from tests.support.dag_bag import DagBag

    _import(parse.modules)
    if parse.is_further:
        DagBag(parse.file)
    bags: list[DagBag] = []
    seconds = _timed(lambda: bags.append(DagBag(parse.file)))
    if bags[0].import_errors or not bags[0].dags:
        raise RuntimeError(f"{parse.name} is no DAG file: {bags[0].import_errors}")
    return seconds


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(module)


def _timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _modules_of_others(modules: Sequence[str]) -> list[str]:
    """Return the modules of others that these import, in the order in which they are loaded."""
    known = set(sys.modules)
    _import(modules)
    return [name for name in sys.modules if name not in known and not name.startswith(_OWN)]


def _forked(work: Callable[[], Any]) -> Any:
    """Return its result, from a process that knows nothing of earlier ones."""
    reader, writer = os.pipe()
    if not (pid := os.fork()):
        status = 1
        try:
            with os.fdopen(writer, "w") as answer:
                json.dump(work(), answer)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError("A forked process died of the error above.")
    return json.loads(text)


def main() -> None:
    """Measure what the argument says."""
    given = json.loads(sys.argv[1])
    parses = [Parse(**each) for each in given["parses"]]
    _load_airflow()
    others = {
        parse.name: _forked(lambda modules=parse.modules: _modules_of_others(modules))
        for parse in parses
        if parse.without_others
    }
    # Whoever comes first would read files that are in memory for all others.
    _forked(lambda: _import([module for parse in parses for module in parse.modules]))
    measured = []
    for number in range(given["rounds"]):
        turn = parses[:: 1 if number % 2 else -1]
        measured.append(
            {each.name: _forked(lambda each=each: _seconds(each, others.get(each.name, []))) for each in turn}
        )
    Path(given["result_file"]).write_text(json.dumps(measured), encoding="utf-8")


if __name__ == "__main__":
    main()
