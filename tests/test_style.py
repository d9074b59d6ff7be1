"""Sizes that keep the code readable: functions under 40 lines, without signature and docstring; modules up to 500."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    path
    for folder in ("airflow_provider_chs3", "dags", "tests")
    for path in (ROOT / folder).rglob("*.py")
    if "node_modules" not in path.parts
)


def test_functions_are_under_40_lines():
    assert [f"{path.relative_to(ROOT)}: {name}" for path in MODULES for name in _long_functions(path)] == []


def test_a_module_of_more_than_500_lines_answers_more_than_one_question():
    assert [str(path.relative_to(ROOT)) for path in MODULES if len(path.read_text().splitlines()) > 500] == []


def _long_functions(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            if body and body[-1].end_lineno - body[0].lineno + 1 >= 40:
                yield node.name
