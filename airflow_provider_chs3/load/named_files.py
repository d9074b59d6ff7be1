"""Arguments that may name files: `settings="settings.json"`, and an `.sql` file for a text within an object."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

from airflow_provider_chs3.core.arguments.load_arguments import GROUPS
from airflow_provider_chs3.exceptions import ConfigurationError

#: Arguments that are objects.
_OBJECTS = frozenset({"select", "csv", "settings", "node_specs", *GROUPS})
#: The names and numbers that lead to a value, such as `("select", "fare")`.
Keys: TypeAlias = tuple[str | int, ...]


class NamedFiles(ABC):
    """The files that values may name."""

    @abstractmethod
    def where(self, keys: Keys, name: str) -> str:
        """Return how an error names a value, and the file in it."""

    @abstractmethod
    def text(self, keys: Keys, name: str) -> str:
        """Return the text of a file."""

    def read(self, keys: Keys, value: Any) -> Any:
        """Return a value in which files that it names are replaced by their content; else it is unchanged."""
        if isinstance(value, str) and keys[-1] in _OBJECTS and value.endswith((".json", ".sql")):
            value = self._object(keys, value)
        if isinstance(value, Mapping):
            read = {key: self.read((*keys, key), element) for key, element in value.items()}
            return value if read == value else read
        if isinstance(value, str) and value.endswith(".sql"):
            return self.text(keys, value).strip()
        return value

    def _object(self, keys: Keys, name: str) -> Mapping[str, Any]:
        try:
            values = json.loads(self.text(keys, name))
        except ValueError as error:
            raise ConfigurationError(f"{self.where(keys, name)} holds no JSON: {error}.") from None
        if not isinstance(values, dict):
            raise ConfigurationError(
                f'{self.where(keys, name)} holds no JSON object: write one, such as {{"max_threads": 8}}.'
            )
        return values
