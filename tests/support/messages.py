"""The messages of this package's errors, read out of its source: constant text, with `…` for what varies."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from airflow_provider_chs3 import exceptions
from airflow_provider_chs3.core.model import error_codes

_PACKAGE = Path(exceptions.__file__).parent
#: Not for users' tasks, or not errors: the doctor reports findings. The rehearsal, in its room, raises.
_LEFT_OUT = ("testbed", "doctor")
_ERRORS = {name for name, value in vars(exceptions).items() if isinstance(value, type)}
#: Functions whose texts come into errors as verdicts, results or answers of other modules.
_BY_OTHER_WAYS = (
    "_hindrances",
    "other_schema",
    "_standstill",
    "_mismatch",
    "having",
    "_sentence",
    "_inner_sentence",
    "_conversion_sentence",
    "mark_message",
    "unreadable",
    "_is_missing",
    "_explain_zone",
    "_weighed",
    "_problem",
    "_is_elsewhere",
    "_what_may_go",
    "_shrank_text",
)
#: Texts without a word are only parts of messages.
_SHORTEST = 12

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def messages() -> dict[str, str]:
    """Each message, with the module that has it."""
    found: dict[str, str] = {}
    for path in sorted(_PACKAGE.rglob("*.py")):
        name = str(path.relative_to(_PACKAGE))
        if not any(each in name for each in _LEFT_OUT) or "rehearsal" in name:
            for message in _of_module(ast.parse(path.read_text(encoding="utf-8")), is_root=name == "exceptions.py"):
                found.setdefault(message, name)
    return found


def _of_module(module: ast.Module, *, is_root: bool) -> Iterator[str]:
    every = [node for node in ast.walk(module) if isinstance(node, Function)]
    constants = {ast.unparse(node.targets[0]): node.value for node in module.body if isinstance(node, ast.Assign)}
    known = constants | {node.name: node for node in every}
    for function in every:
        if function.name in _BY_OTHER_WAYS or (is_root and function.name == "__str__"):
            yield from _returned(function, known, depth=2)
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _ERRORS:
                for argument in call.args[:1]:
                    yield from _of_expression(argument, function, known, depth=4)


def _of_expression(node: ast.AST, function: Function, known: dict[str, ast.AST], *, depth: int) -> Iterator[str]:
    """The texts that an expression may be, or holds: its own, those of its names, and those of functions it calls."""
    text = _text(node)
    if text is not None:
        if len(text.replace("…", "")) >= _SHORTEST:
            yield text
        return
    if depth == 0:
        return
    if isinstance(node, ast.Name):
        for value in [*_assigned(node.id, function), *filter(_text, [known.get(node.id)])]:
            yield from _of_expression(value, function, known, depth=depth - 1)
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and isinstance(known.get(node.func.id), Function):
        yield from _returned(known[node.func.id], known, depth=depth - 1)
        return
    is_step = isinstance(node, ast.Call) and (
        (isinstance(node.func, ast.Name) and node.func.id[0].isupper())
        or (isinstance(node.func, ast.Attribute) and node.func.attr in ("try_look", "on_each"))
    )
    if is_step:
        # Such as a statement with its name.
        return
    for child in ast.iter_child_nodes(node):
        yield from _of_expression(child, function, known, depth=depth)


def _returned(function: Function, known: dict[str, ast.AST], *, depth: int) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) and node.value is not None:
            yield from _of_expression(node.value, function, known, depth=depth)


def _assigned(name: str, function: Function) -> Iterator[ast.expr]:
    """Yield the values that are assigned to a name, or added to it."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=True))
                yield from (value for each, value in pairs if isinstance(each, ast.Name) and each.id == name)
        elif isinstance(node, ast.AugAssign | ast.NamedExpr) and ast.unparse(node.target) == name:
            yield node.value


def _text(node: ast.AST | None) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return None if left is None and right is None else f"{left or '…'}{right or '…'}"
    return None


def known_codes() -> set[int]:
    """Return ClickHouse's codes that errors are explained by."""
    return {*error_codes._HINTS, error_codes.S3_ERROR, error_codes.HDFS_ERROR, error_codes.POCO_EXCEPTION}


def is_part(entry: str, message: str) -> bool:
    return re.search(".*".join(re.escape(each) for each in entry.split("…")), message, re.DOTALL) is not None
