"""A source of objects: renders the table function and lists. What differs between storages is below it."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Self

from airflow_provider_chs3.core.source.key_template import KeyTemplate, MonthKeys
from airflow_provider_chs3.core.source.prefixes import shared_prefix
from airflow_provider_chs3.core.source.source import Batch, Source
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, literals
from airflow_provider_chs3.core.values.models import Manifest, Month, S3Object
from airflow_provider_chs3.core.values.object_page import ObjectPage
from airflow_provider_chs3.core.workflow.operations import ListObjects, Query, Steps
from airflow_provider_chs3.exceptions import SourceError

#: Characters that are literal in every table function; all others are matched by a glob.
_PLAIN = re.compile(r"[A-Za-z0-9/_.=-]*")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9/_.=-]")


@dataclass(frozen=True)
class ObjectSource(Source):
    """Objects in a storage: how they are listed, and what reads them.

    Where ClickHouse itself lists, a template with `**` or a trailing `/` does not find keys with braces two or more
    levels below its literal prefix.

    Args:
        bucket: The bucket, or what the storage has in its place; empty if a named collection names it.
        template: Template of the keys of a month.
        base: The part of `_path` before the key; found by listing if a named collection names the bucket.
    """

    bucket: str
    template: KeyTemplate
    base: str = field(default="", kw_only=True)

    @property
    @abstractmethod
    def url(self) -> str:
        """The bucket as a URL, for people and for lineage."""

    @property
    @abstractmethod
    def server_url(self) -> str:
        """Where the servers look for the storage; empty if a named collection says it."""

    @property
    def place(self) -> str:
        """The bucket, or else the named collection, for messages."""
        return self.bucket or self.named_collection or ""

    @property
    def pattern(self) -> str:
        """The template of a month's keys, for messages."""
        return self.template.text

    @property
    def lists_through_clickhouse(self) -> bool:
        """Whether ClickHouse lists the objects, because the worker has no keys."""
        return self.named_collection is not None

    @abstractmethod
    def _located(self, glob: str) -> Sql:
        """Return the arguments that say where the objects are and who reads them, without a named collection."""

    def table_function(
        self,
        glob: str,
        *,
        file_format: str,
        cluster: str | None = None,
        structure: str = "auto",
        compression: str = "auto",
    ) -> Sql:
        """Return the table function that reads objects: that of all nodes if a cluster is given.

        See `Source.table_function`.
        """
        name, first = self.kind.function, ""
        if cluster:
            name, first = f"{name}Cluster", f"{literal(cluster)}, "
        shape = {"format": file_format, "structure": structure, "compression_method": compression}
        if self.named_collection:
            given = {self.kind.glob_argument: glob, **shape}
            named = ", ".join(f"{argument} = {literal(value)}" for argument, value in given.items())
            return Sql(f"{name}({first}{identifier(self.named_collection)}, {named})")
        located = self._located(glob)
        in_order = literals(shape[argument] for argument in self.kind.shape)
        return Sql(f"{name}({first}{located.text}, {in_order})", located.secrets)

    def list_month(self, month: Month) -> Steps[tuple[Self, Manifest]]:
        """List the month's objects.

        Returns:
            The source, with its base known from now on, and the manifest.

        Raises:
            SourceError: If ClickHouse cannot read an object because of its key.
        """
        keys = self.template.keys_of(month)
        source, pages = yield from self.list_and_inspect_quickly(keys)
        return source, Manifest.of(_selected(pages, keys, source))

    def list_and_inspect_quickly(
        self, keys: MonthKeys, *, narrower: Callable[[str], Sequence[str]] | None = None
    ) -> Steps[tuple[Self, Iterable[ObjectPage]]]:
        """List all objects that may have those keys, as a stream of pages if the worker lists.

        Args:
            keys: The keys.
            narrower: How the worker may cut their prefix; see `ListObjects`.

        Returns:
            The source, with its base known from now on, and the pages.
        """
        return (yield from self._listed(keys.prefix, levels_below=keys.levels_below, narrower=narrower))

    def has_object(self, key: str) -> Steps[bool]:
        """Check whether an object with exactly this key exists."""
        source, pages = yield from self._listed(key, levels_below=0)
        return any(f"{source.base}{key}" in page.paths for page in pages)

    def _listed(
        self, prefix: str, *, levels_below: int | None, narrower: Callable[[str], Sequence[str]] | None = None
    ) -> Steps[tuple[Self, Iterable[ObjectPage]]]:
        if not self.lists_through_clickhouse:
            name = f"List {self.url}/{prefix}"
            pages: Iterable[ObjectPage] = yield from ListObjects(
                name=name, bucket=self.bucket, prefix=prefix, narrower=narrower
            )
            return replace(self, base=f"{self.bucket}/"), pages
        plain = plain_prefix(prefix)
        glob = plain + "**"
        if levels_below is not None:
            glob = plain + _any_name(prefix[len(plain) :].count("/") + levels_below)
        function = self.table_function(glob, file_format="One")
        sql = Sql(
            f"SELECT {self.kind.path}, _size, _etag, toUnixTimestamp(_time) FROM {function.text}", function.secrets
        )
        rows = yield from Query(name=f"List {glob} through ClickHouse", sql=sql, settings=self.kind.quick_failure)
        listed = [
            S3Object(path, size, etag.strip('"'), datetime.fromtimestamp(written, UTC))
            for path, size, etag, written in rows
        ]
        return replace(self, base=self.base_of(listed, plain)), [ObjectPage.of(listed)]

    def base_of(self, listed: Sequence[S3Object], prefix: str) -> str:
        """Return the part of all paths before the prefix: the bucket, and the rest of the collection's URL."""
        if not listed or not self.named_collection:
            return f"{self.bucket}/"
        first = listed[0].path
        # Also at the very start: the collection's URL may end before the bucket.
        starts = [
            at
            for at in range(len(first))
            if prefix and (not at or first[at - 1] == "/") and first.startswith(prefix, at)
        ]
        for start in starts:
            base = first[:start]
            if all(each.path.startswith(base + prefix) for each in listed):
                return base
        return first[: first.index("/") + 1]

    def batches(self, manifest: Manifest) -> list[Batch]:
        """Group the manifest's objects into few batches: one, except for keys with special characters of globs.

        Keys of plain characters are listed in braces, so that only these objects are opened: an INSERT reads everything
        its glob matches, and `_path IN` only filters the rows. Other keys need wildcards, with one batch per level if
        any contains braces, as `**` does not match those.
        """
        groups: dict[int, list[str]] = defaultdict(list)
        any_braces = any(brace in each.path for each in manifest.objects for brace in "{}")
        for each in manifest.objects:
            is_plain = _PLAIN.fullmatch(each.path, len(self.base))
            groups[-1 if is_plain else each.path.count("/") if any_braces else 0].append(each.path)
        return [
            Batch(
                self._names(paths) if kind == -1 else self._wildcard(paths, any_braces=any_braces),
                tuple(paths),
                self.kind.path,
            )
            for kind, paths in groups.items()
        ]

    def _shared_prefix(self, paths: Sequence[str]) -> str:
        return plain_prefix(shared_prefix([paths[0][len(self.base) :], paths[-1][len(self.base) :]]))

    def _names(self, paths: Sequence[str]) -> str:
        if len(paths) == 1:
            return paths[0][len(self.base) :]
        prefix = self._shared_prefix(paths)
        folder = prefix[: prefix.rfind("/") + 1]
        start = len(self.base) + len(folder)
        return f"{folder}{{{','.join(path[start:] for path in paths)}}}"

    def _wildcard(self, paths: Sequence[str], *, any_braces: bool) -> str:
        if len(paths) == 1:
            return self.glob_of(paths[0])
        prefix = self._shared_prefix(paths)
        levels = paths[0][len(self.base) + len(prefix) :].count("/")
        return prefix + (_any_name(levels) if any_braces else "**")

    def glob_of(self, path: str) -> str:
        """Return a glob that matches one object, and rarely another."""
        return _NOT_PLAIN.sub("?", path[len(self.base) :])

    def beginning_of(self, batch: Batch) -> str:
        """Return how the paths of a batch begin, as they are listed."""
        return self.base + plain_prefix(batch.glob)

    def check_readable(self, each: S3Object, key: str) -> None:
        """Check that ClickHouse can read an object.

        Args:
            each: The object.
            key: Its key.

        Raises:
            SourceError: If something in its key means something else to ClickHouse.
        """
        if unreadable := next((part for part in self.kind.unreadable if part in key), ""):
            raise SourceError(
                f"ClickHouse cannot read {each.path}: {unreadable!r} in a key means something else to it. Copy the "
                "object to another key, or leave it out with key=…."
            )


def _any_name(levels: int) -> str:
    """Return a glob for all names this many levels down. `**` matches no braces below its first level."""
    return "*" + "/*" * levels


def plain_prefix(text: str) -> str:
    """Return the longest prefix of a key that is literal in a glob."""
    matched = _PLAIN.match(text)
    return matched[0] if matched else ""


def _selected(pages: Iterable[ObjectPage], keys: MonthKeys, source: ObjectSource) -> Iterator[S3Object]:
    for each in chain.from_iterable(page.objects() for page in pages):
        key = each.path[len(source.base) :]
        if keys.select(key, each.size_bytes):
            source.check_readable(each, key)
            yield each
