"""Everything public in the core says what it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "airflow_provider_chs3" / "core"
MODULES = sorted(CORE.rglob("*.py"))


def public(body: list[ast.stmt], name: str) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield f"{name}.{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body, f"{name}.{node.name}")


NAMED = [found for path in MODULES for found in public(ast.parse(path.read_text("utf-8")).body, path.stem)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_has_a_docstring(path):
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))


@pytest.mark.parametrize("node", [node for _, node in NAMED], ids=[name for name, _ in NAMED])
def test_a_public_name_has_a_docstring(node):
    assert ast.get_docstring(node)


@pytest.mark.parametrize(
    "node", [node for _, node in NAMED if isinstance(node, ast.ClassDef)], ids=lambda node: node.name
)
def test_a_dataclass_explains_each_field(node):
    documented = ast.get_docstring(node)
    fields = [each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and each.target.id[0] != "_"]
    assert "Args:" not in documented or [name for name in fields if f"{name}: " not in documented] == []
