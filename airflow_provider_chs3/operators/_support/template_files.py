"""Arguments that may be files of the DAG folder, as Airflow's templates are: `settings="settings.json"`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.load.named_files import Keys, NamedFiles

if TYPE_CHECKING:
    import jinja2
    from airflow.providers.common.compat.sdk import BaseOperator


def read_files(task: BaseOperator, fields: Sequence[str], environment: Callable[[], jinja2.Environment]) -> None:
    """Replace the names of files in a task's arguments by what is in them.

    A `.json` file holds an object, an `.sql` file a text within one. Airflow's own `template_ext` would hold for all
    arguments, and take the key `trips/{YYYY-MM}/*.json` for a file.
    """
    files = _TemplateFiles(cache(environment))
    for field in fields:
        setattr(task, field, files.read((field,), getattr(task, field)))


class _TemplateFiles(NamedFiles):
    def __init__(self, environment: Callable[[], jinja2.Environment]) -> None:
        self._environment = environment

    def where(self, keys: Keys, name: str) -> str:
        field, *rest = keys
        return f"{field}{''.join(f'[{key!r}]' for key in rest)}={name!r}"

    def text(self, keys: Keys, name: str) -> str:
        from jinja2 import TemplateNotFound

        environment = self._environment()
        try:
            assert environment.loader is not None  # a DAG's environment has its folder
            return environment.loader.get_source(environment, name)[0]
        except TemplateNotFound:
            folders = ", ".join(getattr(environment.loader, "searchpath", ()))
            raise ConfigurationError(
                f"{self.where(keys, name)}: there is no such file in {folders}. Set its path from the folder of the "
                "DAG file, or name its folder in DAG(template_searchpath=[…])."
            ) from None
