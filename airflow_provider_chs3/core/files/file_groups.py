"""Group the files of a period that a load reads, each group with its own types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from airflow_provider_chs3.core.files.file_set import Files
from airflow_provider_chs3.core.files.loaded_columns import FileGroup, LoadedColumn
from airflow_provider_chs3.core.files.reading import Batch
from airflow_provider_chs3.core.model.models import Manifest
from airflow_provider_chs3.core.target.table_facts import Column


@dataclass(frozen=True)
class Reading:
    """The files of a period that a load reads, in groups.

    Args:
        groups: Groups of files: those whose columns have no common type are in different ones. Usually there is one.
        rows: Rows of all files, if footers have them; None otherwise.
        uncompressed_bytes: Bytes of all values as encoded in the files, if footers have them.
        names: All columns of the files; None if files do not name them, or not in a way that can be looked up.
        file_rows: Rows of each file, in the order of their paths, if footers have them.
    """

    groups: tuple[FileGroup, ...]
    rows: int | None = None
    uncompressed_bytes: int | None = None
    names: tuple[str, ...] | None = None
    file_rows: tuple[int, ...] | None = None

    @property
    def loaded(self) -> tuple[LoadedColumn, ...]:
        """The target's loaded columns, each with its source in the first group."""
        return self.groups[0].loaded if self.groups else ()

    @property
    def types(self) -> Mapping[str, str]:
        """Column → type, of the first group."""
        return self.groups[0].types if self.groups else {}

    @property
    def depends_on(self) -> str:
        """A function in `select` whose value may change between two loads; empty if there is none."""
        return next((column.depends_on for group in self.groups for column in group.loaded if column.depends_on), "")

    @property
    def of_others(self) -> Reading | None:
        """Return how further files like these are read, whatever rows they have; None if these are not alike."""
        if len(self.groups) != 1 or self.names is None:
            return None
        return replace(self, rows=None, uncompressed_bytes=None, names=tuple(sorted(self.names)), file_rows=None)

    @property
    def as_text(self) -> str:
        """The values of `as_json` as a text: of equal ones, the inserts are the same statement, but for settings."""
        return json.dumps(self.as_json(), ensure_ascii=False)

    def batches(self, files: Files) -> list[tuple[FileGroup, Batch]]:
        """Return what each statement reads."""
        elsewhere = frozenset[str]().union(*(group.paths for group in self.groups if group.paths is not None))
        batches = []
        for group in self.groups:
            objects = (
                unit
                for unit in files.manifest.objects
                if (unit.path in group.paths if group.paths is not None else unit.path not in elsewhere)
            )
            batches += [(group, batch) for batch in files.source.batches(Manifest(tuple(objects)))]
        return batches

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        groups = [
            {
                "types": dict(group.types),
                "loaded": [asdict(column) for column in group.loaded],
                "paths": None if group.paths is None else sorted(group.paths),
                "defaults": dict(group.defaults),
            }
            for group in self.groups
        ]
        return {"groups": groups, "rows": self.rows, "names": self.names, "file_rows": self.file_rows}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Reading:
        """Create it from the values of `as_json`."""
        groups = tuple(
            FileGroup(
                types=group["types"],
                loaded=tuple(_parse_column(column) for column in group["loaded"]),
                paths=None if group["paths"] is None else frozenset(group["paths"]),
                defaults=group["defaults"],
            )
            for group in values["groups"]
        )
        names, file_rows = values["names"], values["file_rows"]
        return cls(
            groups=groups,
            rows=values["rows"],
            names=None if names is None else tuple(names),
            file_rows=None if file_rows is None else tuple(file_rows),
        )


def _parse_column(values: Mapping[str, Any]) -> LoadedColumn:
    return LoadedColumn(**{**values, "column": Column(**values["column"]), "altered": tuple(values["altered"])})
