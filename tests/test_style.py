"""Sizes and names that keep the code readable.

Functions are under 40 lines, without signature and docstring; modules have up to 500 lines; names say what a value is;
helpers that test modules share are in modules of their own.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "airflow_provider_chs3"
MODULES = sorted(
    path
    for folder in (PACKAGE, "dags", "tests")
    for path in (ROOT / folder).rglob("*.py")
    if "node_modules" not in path.parts
)
#: Names of variables that do not say what the value is, and the share of all that may be so called.
_VAGUE = {"each", "one", "own", "found", "some", "now", "why", "there"}
_MOST_VAGUE = 0.02


def test_functions_are_under_40_lines():
    assert [f"{path.relative_to(ROOT)}: {name}" for path in MODULES for name in _long_functions(path)] == []


def test_a_module_of_more_than_500_lines_answers_more_than_one_question():
    assert [str(path.relative_to(ROOT)) for path in MODULES if len(path.read_text().splitlines()) > 500] == []


def test_variables_are_named_after_what_they_hold():
    names = [name.strip("_") for path in MODULES if path.is_relative_to(ROOT / PACKAGE) for name in _assigned(path)]
    assert len(names) > 10_000
    assert len([name for name in names if name in _VAGUE]) / len(names) <= _MOST_VAGUE


def test_no_test_module_imports_from_another():
    imports = [
        (str(path.relative_to(ROOT)), name)
        for path in MODULES
        if path.is_relative_to(ROOT / "tests")
        for name in _imported(path)
        if name.startswith("tests.")
    ]
    assert len(imports) > 1_000
    assert [(path, name) for path, name in imports if ".test_" in name] == []


def _imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _assigned(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def _long_functions(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            if body and body[-1].end_lineno - body[0].lineno + 1 >= 40:
                yield node.name
