"""Describe what is unloaded, and name its objects."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_provider_chs3.core.files.file_set import plain_prefix
from airflow_provider_chs3.core.files.object_source import ObjectSource
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.target.topology import TableRequest
from airflow_provider_chs3.exceptions import ConfigurationError

#: The name of an object of an attempt, below the period's folder.
_OWN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{12}/\d+\.parquet")


@dataclass(frozen=True, kw_only=True)
class UnloadRequest(TableRequest):
    """A period of a table, and the folder that it is written to."""

    period: Period
    source: ObjectSource

    def __post_init__(self) -> None:
        template = self.source.template.at(self.period.grain)
        is_read_back = template.period_of(f"{self.folder}attempt/1.parquet") == self.period
        is_plain = plain_prefix(self.folder) == self.folder and not set("*?") & set(template.text)
        if not (template.text.endswith("/") and is_read_back and is_plain):
            raise ConfigurationError(
                f"key={template.text!r} does not name a period's folder: end it with one, as in "
                f"'exports/{{YYYY-MM}}/', made of letters, digits and / _ . = - only."
            )

    @property
    def folder(self) -> str:
        """The beginning of the period's keys."""
        return self.source.template.keys_of(self.period).prefix

    @property
    def manifest_key(self) -> str:
        """Key of the object that names the period's files; loads ignore it, as its name begins with `_`."""
        return f"{self.folder}_manifest.json"

    def file_key(self, attempt: str, node: str) -> str:
        """Return the key of what a node writes."""
        return f"{self.folder}{attempt}/{node}.parquet"

    def is_of_an_attempt(self, key: str) -> bool:
        """Check whether an object is of some attempt at this period, and not somebody else's."""
        return key.startswith(self.folder) and _OWN.fullmatch(key, len(self.folder)) is not None
