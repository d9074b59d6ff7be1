"""Sizes that keep the code readable: functions under 40 lines (without signature and docstring), modules under 300."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    path for folder in ("airflow_provider_chs3", "dags", "tests") for path in (ROOT / folder).rglob("*.py")
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_is_under_300_lines_and_its_functions_under_40(path):
    source = path.read_text(encoding="utf-8")
    functions = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert len(source.splitlines()) < 300
    assert {node.name: lines for node in functions if (lines := _lines(node)) >= 40} == {}


def _lines(function):
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0
