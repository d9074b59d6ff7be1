"""Arguments that may be files of the DAG folder, as Airflow's templates are: `settings="settings.json"`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.arguments.load_arguments import GROUPS
from airflow_provider_chs3.exceptions import ConfigurationError

if TYPE_CHECKING:
    import jinja2
    from airflow.providers.common.compat.sdk import BaseOperator


#: Arguments that are objects, and those of loads within the definition of a plan.
_OBJECTS = frozenset({"select", "csv", "settings", "node_specs", "definition", *GROUPS})


def read_files(task: BaseOperator, fields: Sequence[str], environment: Callable[[], jinja2.Environment]) -> None:
    """Replace the names of files in a task's arguments by what is in them.

    A `.json` file holds an object, an `.sql` file a text within one. Airflow's own `template_ext` would hold for all
    arguments, and take the key `trips/{YYYY-MM}/*.json` for a file.

    Raises:
        ConfigurationError: If a file is missing, or holds no JSON object.
    """
    environment = cache(environment)
    for field in fields:
        setattr(task, field, _read(field, field, getattr(task, field), environment))


def _read(name: str, where: str, value: Any, environment: Callable[[], jinja2.Environment]) -> Any:
    """Return a value in which files that it names are replaced by their content; without such names it is unchanged."""
    if isinstance(value, str) and name in _OBJECTS and value.endswith((".json", ".sql")):
        value = _object(where, value, environment())
    if isinstance(value, Mapping):
        read = {key: _read(key, f"{where}[{key!r}]", element, environment) for key, element in value.items()}
        return value if read == value else read
    if isinstance(value, str) and value.endswith(".sql"):
        return _text(where, value, environment()).strip()
    return value


def _text(where: str, name: str, environment: jinja2.Environment) -> str:
    from jinja2 import TemplateNotFound

    try:
        assert environment.loader is not None  # a DAG's environment has its folder
        return environment.loader.get_source(environment, name)[0]
    except TemplateNotFound:
        folders = ", ".join(getattr(environment.loader, "searchpath", ()))
        raise ConfigurationError(
            f"{where}={name!r}: there is no such file in {folders}. Give its path from the folder of the DAG file, or "
            "name its folder in DAG(template_searchpath=[…])."
        ) from None


def _object(where: str, name: str, environment: jinja2.Environment) -> Mapping[str, Any]:
    try:
        values = json.loads(_text(where, name, environment))
    except ValueError as error:
        raise ConfigurationError(f"{where}={name!r} holds no JSON: {error}.") from None
    if not isinstance(values, dict):
        raise ConfigurationError(f'{where}={name!r} holds no JSON object: write one, such as {{"max_threads": 8}}.')
    return values
