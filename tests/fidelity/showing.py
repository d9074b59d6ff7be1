"""A case as a person repeats it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fidelity.cases import Case, SourceFile
from tests.fidelity.formats import FORMATS, body_of
from tests.fidelity.running import Outcome

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import RunningNode

_MOST_BYTES = 2000


def shown(case: Case, outcome: Outcome, node: RunningNode) -> str:
    """Table, files and outcome."""
    lines = [f"CREATE TABLE t {case.created_by}", f"period {case.period}, {case.format}, {case.arguments}"]
    for file in case.files:
        lines.append(f"{file.name}: {file.layout}")
        lines += _of_file(file, case, node)
    lines += [f"{outcome.kind}: {outcome.message}"]
    lines += [f"  {name}: {value}" for name, value in outcome.details.items()]
    return "\n".join(lines)


def _of_file(file: SourceFile, case: Case, node: RunningNode) -> list[str]:
    if FORMATS[case.format].family in ("csv", "tsv", "json"):
        return [f"  {line!r}" for line in body_of(file, FORMATS[case.format], node)[:_MOST_BYTES].splitlines(True)]
    types = ((lane, lane.written_as if FORMATS[case.format].family == "arrow" else lane.of) for lane in file.lanes)
    return [f"  {lane.name}: {getattr(kind, 'sql', kind)} = {lane.cells!r}"[:_MOST_BYTES] for lane, kind in types]
