"""Hide the libraries that an installation of the package, with some of its extras, would not bring."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distributions, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_PACKAGE = "airflow-provider-chs3"
_ROOT = Path(__file__).parents[2]
#: The beginning of lines with answers, among those of logs.
_ANSWER = "told: "


def hide_all_but(extras: Collection[str], *, also: Collection[str] = ()) -> set[str]:
    """Let no module be imported that only other distributions have; what was hidden before is shown again."""
    sys.meta_path[:] = [each.finder if isinstance(each, _Hiding) else each for each in sys.meta_path]
    required = _required(extras) - set(also)
    modules: dict[bool, set[str]] = {True: set(), False: set()}
    absent = set()
    for distribution in distributions():
        name = canonicalize_name(distribution.name)
        modules[name in required].update(_modules(distribution))
        if name not in required:
            absent.add(name)
    with suppress(ImportError):
        # Which Airflow takes before Python 3.12: with its own finder, which must be hidden from, too.
        import importlib_metadata  # noqa: F401
    absent_modules = modules[False] - modules[True]
    sys.meta_path[:] = [_Hiding(finder, absent_modules, absent) for finder in sys.meta_path]
    return absent


def _required(extras: Collection[str]) -> set[str]:
    """The names of all distributions that an installation brings."""
    found: set[tuple[str, frozenset[str]]] = set()
    remaining = [Requirement(f"{_PACKAGE}[{','.join(extras)}]" if extras else _PACKAGE)]
    while remaining:
        each = remaining.pop()
        key = canonicalize_name(each.name), frozenset(each.extras)
        if key not in found:
            found.add(key)
            remaining += _requirements(each)
    return {name for name, _ in found}


def _requirements(of: Requirement) -> Iterator[Requirement]:
    try:
        texts = requires(of.name) or ()
    except PackageNotFoundError:
        return  # of another platform, or of an older Python
    for text in texts:
        each = Requirement(text)
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *of.extras)):
            yield each


def _modules(distribution: Distribution) -> Iterator[str]:
    """The modules that a distribution has: several have some of `airflow.providers`."""
    for path in distribution.files or ():
        if path.suffix in (".py", ".so") and ".." not in path.parts:
            *packages, name = path.parts
            stem = name.partition(".")[0]
            yield ".".join(packages if stem == "__init__" else (*packages, stem))


class _Hiding:
    """A finder of modules and distributions that does not find the absent ones."""

    def __init__(self, finder: Any, modules: set[str], distributions: set[str]) -> None:
        self.finder = finder
        self._modules = modules
        self._distributions = distributions

    def find_spec(self, name: str, *place: Any) -> Any:
        return None if name in self._modules else self.finder.find_spec(name, *place)

    def find_distributions(self, context: Any) -> Iterator[Distribution]:
        find = getattr(self.finder, "find_distributions", lambda _: ())
        return (each for each in find(context) if canonicalize_name(each.name) not in self._distributions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.finder, name)


def run_operator(
    operator: type[Any], arguments: Mapping[str, Any], *, extras: Collection[str], also: Collection[str] = ()
) -> dict[str, Any]:
    """Execute an operator in a process of its own, where only the libraries of some extras are."""
    given = {"module": operator.__module__, "name": operator.__name__, "arguments": arguments}
    parent = _without_extras()
    assert parent.stdin
    assert parent.stdout
    text = json.dumps({**given, "extras": [*extras], "also": [*also], "environment": dict(os.environ)})
    print(text, file=parent.stdin, flush=True)
    logged = []
    for line in parent.stdout:
        if line.startswith(_ANSWER):
            told: dict[str, Any] = json.loads(line.removeprefix(_ANSWER))
            assert "traceback" not in told, told["traceback"]
            return told
        logged.append(line)
    raise AssertionError(f"the process has ended: {''.join(logged)[-2_000:]}")


@cache
def _without_extras() -> subprocess.Popen[str]:
    """The parent of the operators' processes, which ends with this one: to import Airflow takes seconds."""
    command = [sys.executable, "-m", __name__]
    return subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _serve() -> None:
    absent = hide_all_but(())
    # It sees no library of an extra, so that whatever it imports is as if none were there.
    import airflow.providers.common.compat.sdk  # noqa: F401

    for line in sys.stdin:
        child = os.fork()
        if not child:
            told = _told(json.loads(line), absent)
            print(f"\n{_ANSWER}{json.dumps(told)}", flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            print(f"\n{_ANSWER}{json.dumps({'traceback': f'it ended with {status}'})}", flush=True)


def _told(given: Mapping[str, Any], absent: set[str]) -> dict[str, Any]:
    from airflow.providers.common.compat.sdk import AirflowException

    os.environ.clear()
    os.environ.update(given["environment"])
    try:
        if given["extras"]:
            absent = hide_all_but(given["extras"], also=given["also"])
        told: dict[str, Any] = {"absent": sorted(absent)}
        operator = getattr(importlib.import_module(given["module"]), given["name"])
        try:
            told["result"] = operator(task_id="alone", **given["arguments"]).execute({})
        except AirflowException as error:
            told["error"] = str(error)
        return told
    except Exception:
        return {"traceback": traceback.format_exc()}


if __name__ == "__main__":
    _serve()
