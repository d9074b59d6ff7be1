"""Sizes that keep the code readable: functions under 40 lines (docstrings aside), modules under 300."""

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
    docstring = function.body[0] if ast.get_docstring(function) is not None else None
    return function.end_lineno - function.lineno + 1 - (docstring.end_lineno - docstring.lineno + 1 if docstring else 0)
