"""A YAML or JSON file whose values are checked as they are declared: errors name the line, and where in the file it is.

Nothing is converted silently: what YAML reads otherwise than it is written, such as `yes` and `010`, is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any

import yaml

from airflow_provider_chs3.core.arguments.declaration import Argument, elements_of, is_of_a_run
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.load.named_files import Keys, NamedFiles

#: The fast one is there where PyYAML was built with libyaml.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_YAML = "tag:yaml.org,2002:"
_MERGE = f"{_YAML}merge"
_TAGS = {
    yaml.ScalarNode: frozenset(
        f"{_YAML}{name}" for name in ("str", "value", "int", "float", "bool", "null", "timestamp")
    ),
    yaml.SequenceNode: {f"{_YAML}seq"},
    yaml.MappingNode: {f"{_YAML}map"},
}
#: Numbers, truth values and null as YAML and its readers agree on them.
_AS_WRITTEN = re.compile(
    r"[-+]?(?:0|[1-9]\d*)?(?:\.\d*)?(?:e[-+]?\d+)?|true|false|null|~|\d{4}-.*", re.IGNORECASE | re.DOTALL
)
_SCALARS: Mapping[str, Any] = {"str": str, "int": int, "float": int | float, "bool": bool}
_NOUNS = ((bool, "a truth value"), (str, "a text"), (int | float, "a number"), (date, "a date"), (list, "a list"))


class Document(NamedFiles):
    """The values of a file, and where each of them is.

    Args:
        path: The file's path.

    Raises:
        ConfigurationError: If the file is missing, no YAML, or has a name twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: dict[Keys, int] = {(): 1}
        self._written: dict[Keys, str] = {}
        self._open: list[Any] = []
        self._loader = _LOADER(_text_of(path))
        try:
            node = self._loader.get_single_node()
            self.values = None if node is None else self._value((), node)
        except yaml.MarkedYAMLError as error:
            raise self._no_yaml(error) from None
        finally:
            self._loader.dispose()

    def line(self, keys: Keys) -> int:
        """Return the line of a name, or of what contains it if another file has it."""
        return next(self._lines[keys[:end]] for end in range(len(keys), -1, -1) if keys[:end] in self._lines)

    def at(self, keys: Keys) -> str:
        """Return where a value is, for errors."""
        steps = (f".{key}" if re.fullmatch(r"[\w$]+", str(key)) else f"[{key!r}]" for key in keys)
        written = "".join(f"[{key}]" if isinstance(key, int) else step for key, step in zip(keys, steps, strict=True))
        return ", ".join(filter(None, (str(self.path), f"line {self.line(keys)}", written.removeprefix("."))))

    @contextmanager
    def naming(self, keys: Keys) -> Iterator[None]:
        """Say in errors where a value is."""
        try:
            yield
        except ConfigurationError as error:
            raise ConfigurationError(f"{self.at(keys)}: {error}") from None

    def check_names(
        self, keys: Keys, given: Any, known: Iterable[str], *, meant: Mapping[str, str] | None = None
    ) -> None:
        """Check the names in a mapping.

        Args:
            keys: Where it is.
            given: The mapping.
            known: The names that it may have.
            meant: Other names for them, for a hint. Default: none.
        """
        names = [*known]
        if not isinstance(given, dict):
            raise ConfigurationError(f"{self.at(keys)} is {_noun(given)}: use a mapping, with {', '.join(names)}.")
        for name in given:
            if name not in names:
                near = (meant or {}).get(name) or next(iter(get_close_matches(name, names, n=1)), None)
                hint = f"do you mean {near}?" if near else f"known are {', '.join(names)}."
                raise ConfigurationError(f"{self.at((*keys, name))} is not known: {hint}")

    def check(self, keys: Keys, argument: Argument, value: Any) -> None:
        """Check a value as it is declared; but a number is no text of a number."""
        kinds = {*argument.kinds} - ({"str"} if argument.may_be_a_file else set())
        if (value is None and "None" in kinds) or (
            argument.is_template and isinstance(value, str) and is_of_a_run(value)
        ):
            return
        container = next((kind for kind in kinds if "[" in kind), "")
        if container and isinstance(value, dict if container.startswith("Mapping") else list):
            self._check_elements(keys, container, value)
        elif not any(_fits(value, kind) for kind in kinds):
            raise self._of_another_type(keys, value, _wanted(argument))
        try:
            argument.checked(value)
        except ConfigurationError:
            raise ConfigurationError(f"{self.at(keys)}={value!r} is not allowed: use {_wanted(argument)}.") from None

    def _check_elements(self, keys: Keys, container: str, value: dict[str, Any] | list[Any]) -> None:
        kinds = elements_of(container)
        for key, element in value.items() if isinstance(value, dict) else enumerate(value):
            if not any(_fits(element, kind) for kind in kinds):
                raise self._of_another_type(
                    (*keys, key), element, "a text" if kinds == ("str",) else "a text or a number"
                )

    def _of_another_type(self, keys: Keys, value: Any, wanted: str) -> ConfigurationError:
        written = self._written.get(keys)
        if wanted == "a text" and written and not isinstance(value, str):
            noun, way_out = ("empty", ", or set another value") if value is None else (_noun(value), "")
            return ConfigurationError(f"{self.at(keys)} is {written}, {noun} in YAML: quote it, '{written}'{way_out}.")
        as_written = repr(value) if isinstance(value, str) else written
        shown = "empty" if written == "" else ", ".join(dict.fromkeys(filter(None, (as_written, _noun(value)))))
        return ConfigurationError(f"{self.at(keys)} is {shown}: use {wanted}.")

    def where(self, keys: Keys, name: str) -> str:
        """Return how an error names a value, and the file in it."""
        return f"{self.at(keys)}={name!r}"

    def text(self, keys: Keys, name: str) -> str:
        """Return the text of a file, whose path is relative to the folder of this one."""
        try:
            return (self.path.parent / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"{self.where(keys, name)} cannot be read: {_reason(error)}. Set its path from the folder "
                f"{self.path.absolute().parent}."
            ) from None

    def _value(self, keys: Keys, node: Any) -> Any:
        if node.tag not in _TAGS[type(node)]:
            tag = node.tag.replace(_YAML, "!!")
            raise ConfigurationError(f"{self.at(keys)} has the tag {tag}: leave it out.")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(keys, node)
        if any(node is parent for parent in self._open):
            raise ConfigurationError(f"{self.at(keys)} contains itself: leave the alias out.")
        self._open.append(node)
        value = self._mapping(keys, node) if isinstance(node, yaml.MappingNode) else self._list(keys, node)
        self._open.pop()
        return value

    def _scalar(self, keys: Keys, node: Any) -> Any:
        self._written[keys] = written = node.value
        if node.tag in (f"{_YAML}str", f"{_YAML}value"):
            return written
        try:
            value = self._loader.construct_object(node)
        except ValueError:
            raise ConfigurationError(
                f"{self.at(keys)} is {written}, which YAML cannot read: quote it, '{written}'."
            ) from None
        if isinstance(value, float) and not isfinite(value):
            raise ConfigurationError(
                f"{self.at(keys)} is {written}, no finite number: write one, or quote it, '{written}'."
            )
        if not _AS_WRITTEN.fullmatch(written):
            # 10:00 is meant as a time, never as 600.
            write_that = "" if ":" in written else "write that, or "
            raise ConfigurationError(
                f"{self.at(keys)} is {written}, which YAML reads as {json.dumps(value)}: {write_that}quote it, "
                f"'{written}'."
            )
        return value

    def _list(self, keys: Keys, node: Any) -> list[Any]:
        for index, element in enumerate(node.value):
            self._lines[*keys, index] = element.start_mark.line + 1
        return [self._value((*keys, index), element) for index, element in enumerate(node.value)]

    def _mapping(self, keys: Keys, node: Any) -> dict[str, Any]:
        lines: dict[str, int] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigurationError(f"{self.at(keys)} has no text as a name: quote what begins with a brace.")
            if key.value in lines:
                self._lines[*keys, key.value] = line
                raise ConfigurationError(
                    f"{self.at((*keys, key.value))} is set twice, first in line {lines[key.value]}: leave one out."
                )
            lines[key.value] = line
            if key.tag == _MERGE:
                self._lines[*keys, key.value] = line
                merged = self._merged(keys, value)
        values = {}
        for key, value in node.value:
            if key.tag != _MERGE:
                # A name is the text that is written: `null` of a CSV dialect, or a column `2026`.
                self._lines[*keys, key.value] = lines[key.value]
                values[key.value] = self._value((*keys, key.value), value)
        return {**merged, **values}

    def _merged(self, keys: Keys, node: Any) -> dict[str, Any]:
        """Return the names of what `<<` merges; of several mappings, the first that has a name counts."""
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for base in reversed(nodes):
            if not isinstance(base, yaml.MappingNode):
                raise ConfigurationError(f"{self.at(keys)}.<< is no mapping: use an alias of one, such as *base.")
            merged |= self._value(keys, base)
        return merged

    def _no_yaml(self, error: yaml.MarkedYAMLError) -> ConfigurationError:
        mark, start = error.problem_mark, error.context_mark
        if "another document" in (error.problem or ""):
            return ConfigurationError(
                f"{self.path}, line {mark.line + 1} begins another document: write it in a file of its own."
            )
        began = f"{error.context} of line {start.line + 1}, " if error.context and start else ""
        return ConfigurationError(
            f"{self.path}, line {mark.line + 1 if mark else 1} is no YAML: {began}{error.problem}. Check the "
            "indentation and the quotes there: a text that begins with {, [, * or @ needs quotes, and no line begins "
            "with a tab."
        )


def _text_of(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{path.absolute()} cannot be read: {_reason(error)}. In a DAG file, Path(__file__).with_name("
            f"{path.name!r}) is the file beside it."
        ) from None
    if unreadable := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = text.count("\n", 0, unreadable.start()) + 1
        raise ConfigurationError(f"{path}, line {line} has the control character {unreadable[0]!r}: leave it out.")
    # Tabs in JSON are indentation only.
    return text.replace("\t", " ") if path.suffix == ".json" else text


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8"


def _fits(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind in ("bool", "Any")
    return kind == "Any" or (kind in _SCALARS and isinstance(value, _SCALARS[kind]))


def _wanted(argument: Argument) -> str:
    return argument.wanted.replace("a dict", "a mapping")


def _noun(value: Any) -> str:
    if value is None:
        return "null"
    return next((noun for kind, noun in _NOUNS if isinstance(value, kind)), "a mapping")
