"""A pure class that documents fields documents each; ruff checks that what is public has a docstring."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "airflow_provider_chs3"


def test_a_dataclass_explains_each_field():
    assert [
        f"{path.relative_to(PACKAGE)}: {node.name}.{field}"
        for room in ("core/**/*.py", "sources/*/reading.py")
        for path in PACKAGE.glob(room)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
        for field in _unexplained(node)
    ] == []


def _unexplained(node: ast.ClassDef) -> list[str]:
    documented = ast.get_docstring(node) or ""
    fields = [each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and each.target.id[0] != "_"]
    return [name for name in fields if "Args:" in documented and f"{name}: " not in documented]
