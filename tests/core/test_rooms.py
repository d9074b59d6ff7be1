"""The rooms of the core, as CONTRIBUTING.md and the contract of import-linter have them."""

from __future__ import annotations

import ast
import re
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_provider_chs3"
CORE = PACKAGE / "core"


def rooms_of_contract() -> list[str]:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    return re.findall(r"\w+", setup["importlinter:contract:rooms"]["layers"])


def test_contributing_shows_each_room_in_the_order_of_imports_with_what_it_says_of_itself():
    shown = re.findall(r"^    (\w+) +(.+)$", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
    rooms = rooms_of_contract()
    says = {room: ast.get_docstring(ast.parse((CORE / room / "__init__.py").read_text("utf-8"))) for room in rooms}
    assert [(name, text) for name, text in shown if name in rooms] == list(says.items())


def test_every_room_is_in_the_contract():
    assert sorted(rooms_of_contract()) == sorted(path.parent.name for path in CORE.glob("*/__init__.py"))


def test_few_rooms_import_each_other():
    arrows = {
        (path.relative_to(CORE).parts[0], imported[1])
        for path in CORE.glob("*/*.py")
        for imported in re.finditer(
            r"^ *from airflow_provider_chs3\.core\.(\w+)", path.read_text("utf-8"), re.MULTILINE
        )
    }
    between = [(room, imported) for room, imported in arrows if room != imported]
    count = f"{len(between)} arrows between {len(rooms_of_contract())} rooms"
    print(count)
    assert len(between) <= 70, count


def test_a_test_module_is_in_the_room_of_the_module_that_it_is_named_after():
    tests = Path(__file__).parent.glob("*/test_*.py")
    modules = [CORE / path.parent.name / path.name.removeprefix("test_") for path in tests]
    assert modules
    assert [path for path in modules if not path.is_file()] == []
