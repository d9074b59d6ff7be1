"""The manifest of an unloaded period: which objects hold it, and what they were proved to hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from airflow_provider_chs3.exceptions import SourceError

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A fingerprint of rows, in any order."""

    rows: int
    hash: str


@dataclass(frozen=True, kw_only=True)
class UnloadedFile:
    """An object that a node wrote."""

    key: str
    node: str
    fingerprint: Fingerprint
    size_bytes: int
    etag: str


@dataclass(frozen=True, kw_only=True)
class UnloadManifest:
    """A period's objects."""

    table: str
    period: str
    columns: tuple[tuple[str, str], ...]
    attempt: str
    files: tuple[UnloadedFile, ...]
    obsolete: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Their rows."""
        return sum(file.fingerprint.rows for file in self.files)

    @property
    def size_bytes(self) -> int:
        """Their size."""
        return sum(file.size_bytes for file in self.files)

    def holds(self, columns: tuple[tuple[str, str], ...], fingerprints: Mapping[str, Fingerprint]) -> bool:
        """Check whether these are the rows that the nodes have."""
        return self.columns == columns and {file.node: file.fingerprint for file in self.files} == fingerprints

    def are_there(self, listed: Mapping[str, tuple[int, str]]) -> bool:
        """Check whether all objects are there as they were written."""
        return all(listed.get(file.key) == (file.size_bytes, file.etag) for file in self.files)

    def as_text(self) -> str:
        """Return the manifest as JSON."""
        return json.dumps({"format": _FORMAT, "rows": self.rows, **asdict(self)}, indent=1)

    @classmethod
    def of_text(cls, text: bytes, where: str) -> Self:
        """Parse the JSON of `as_text`."""
        try:
            fields: dict[str, Any] = json.loads(text)
            if fields["format"] != _FORMAT:
                raise ValueError(fields["format"])
            files = tuple(
                UnloadedFile(**{**field, "fingerprint": Fingerprint(**field["fingerprint"])})
                for field in fields["files"]
            )
            return cls(
                table=fields["table"],
                period=fields["period"],
                columns=tuple((name, kind) for name, kind in fields["columns"]),
                attempt=fields["attempt"],
                files=files,
                obsolete=tuple(fields["obsolete"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SourceError(
                f"{where} is not a manifest that this version can read: unload to another key, or delete it."
            ) from error
