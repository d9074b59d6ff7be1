"""The source of the objects: renders the table function and lists. Nothing else depends on S3."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from airflow_provider_chs3.core.source.key_template import KeyTemplate, MonthKeys
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal
from airflow_provider_chs3.core.values.models import Manifest, Month, S3Object, SettingValues
from airflow_provider_chs3.core.workflow.operations import ListObjects, Query, Steps
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError

#: Characters that are literal in a URL of the s3 table function; all others are matched by a glob.
_PLAIN = re.compile(r"[A-Za-z0-9/_.=-]*")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9/_.=-]")
#: Small reads fail within seconds if the storage does not answer; by default servers retry for many minutes.
READ_SETTINGS: SettingValues = {"s3_retry_attempts": 5}

#: ClickHouse's S3 client refuses an empty name in a key, and cuts off a version.
_UNREADABLE = ("//", "?versionId=")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")


@dataclass(frozen=True)
class Credentials:
    """Credentials of the ClickHouse servers for the bucket. Exactly one kind, or none for a public bucket.

    Args:
        access_key_id: Access key, with `secret_access_key`, and `session_token` for temporary keys.
        secret_access_key: See `access_key_id`.
        session_token: See `access_key_id`.
        named_collection: A named collection on the servers, with URL and keys.
        role_arn: A role that the servers may assume.
    """

    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    named_collection: str | None = None
    role_arn: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Objects that one statement reads.

    Args:
        glob: Glob relative to the source's base; matches the objects and maybe more.
        paths: The exact objects, as in `_path`.
    """

    glob: str
    paths: tuple[str, ...]

    @property
    def condition(self) -> str:
        """The condition that limits a statement to rows of exactly these objects.

        It uses literals: with a subquery s3Cluster was seen to lose objects without an error.
        """
        return f"_path IN ({', '.join(map(literal, self.paths))})"


@dataclass(frozen=True)
class S3Source:
    """Objects in a bucket.

    Where ClickHouse itself lists (a named collection, a role), a template with `**` or a trailing `/` does not find
    keys with braces two or more levels below its literal prefix.

    Args:
        bucket: The bucket; empty if a named collection names it.
        template: Template of the keys of a month.
        endpoint_url: URL of the storage, as reachable from the ClickHouse servers.
        credentials: Credentials of the ClickHouse servers.
        base: The part of `_path` before the key; found by listing if a named collection names the bucket.

    Raises:
        ConfigurationError: If the bucket's name is invalid or missing.
    """

    bucket: str
    template: KeyTemplate
    endpoint_url: str
    credentials: Credentials
    base: str = ""

    def __post_init__(self) -> None:
        if self.credentials.named_collection is None and not _BUCKET.fullmatch(self.bucket):
            raise ConfigurationError(
                f"bucket={self.bucket!r} is not the name of a bucket: give it without s3:// and keys."
            )

    def table_function(
        self,
        glob: str,
        *,
        file_format: str,
        cluster: str | None = None,
        structure: str = "auto",
        compression: str = "auto",
    ) -> Sql:
        """Return `s3(…)`, or `s3Cluster(…)` if a cluster is given.

        Args:
            glob: Glob relative to the base.
            file_format: ClickHouse's name of the format.
            cluster: The cluster that reads; None reads on one node.
            structure: Names and types of the columns; `auto` lets the server infer them.
            compression: ClickHouse's name of the compression; `auto` derives it from the key.
        """
        name, first = ("s3Cluster", f"{literal(cluster)}, ") if cluster else ("s3", "")
        given = self.credentials
        if given.named_collection:
            arguments = (
                f"{identifier(given.named_collection)}, filename = {literal(glob)}, format = {literal(file_format)}, "
                f"structure = {literal(structure)}, compression_method = {literal(compression)}"
            )
            return Sql(f"{name}({first}{arguments})")
        access = "NOSIGN, "
        secrets = tuple(each for each in (given.secret_access_key, given.session_token) if each)
        if given.role_arn:
            access = f"extra_credentials(role_arn = {literal(given.role_arn)}), "
        elif given.access_key_id:
            access = "".join(f"{literal(each)}, " for each in (given.access_key_id, *secrets))
        url = literal(f"{self.endpoint_url.rstrip('/')}/{self.bucket}/{glob}")
        shape = f"{literal(file_format)}, {literal(structure)}, {literal(compression)}"
        return Sql(f"{name}({first}{url}, {access}{shape})", secrets)

    @property
    def lists_through_clickhouse(self) -> bool:
        """Whether ClickHouse lists the objects, because the worker has no keys."""
        return bool(self.credentials.named_collection or self.credentials.role_arn)

    def list_month(self, month: Month) -> Steps[tuple[S3Source, Manifest]]:
        """List the month's objects.

        Returns:
            The source, with its base known from now on, and the manifest.

        Raises:
            SourceError: If ClickHouse cannot read an object because of its key.
        """
        keys = self.template.keys_of(month)
        source, objects = yield from self.list_and_inspect_quickly(keys)
        return source, Manifest.of(_selected(objects, keys, source.base))

    def list_and_inspect_quickly(
        self, keys: MonthKeys, *, narrower: Callable[[str], Sequence[str]] | None = None
    ) -> Steps[tuple[S3Source, Iterable[S3Object]]]:
        """List all objects that may have those keys, as a stream if the worker lists.

        Args:
            keys: The keys.
            narrower: How the worker may cut their prefix; see `ListObjects`.

        Returns:
            The source, with its base known from now on, and the objects.
        """
        return (yield from self._listed(keys.prefix, levels_below=keys.levels_below, narrower=narrower))

    def has_object(self, key: str) -> Steps[bool]:
        """Check whether an object with exactly this key exists."""
        source, objects = yield from self._listed(key, levels_below=0)
        return any(each.path == f"{source.base}{key}" for each in objects)

    def _listed(
        self, prefix: str, *, levels_below: int | None, narrower: Callable[[str], Sequence[str]] | None = None
    ) -> Steps[tuple[S3Source, Iterable[S3Object]]]:
        if not self.lists_through_clickhouse:
            name = f"List s3://{self.bucket}/{prefix}"
            objects: Iterable[S3Object] = yield from ListObjects(
                name=name, bucket=self.bucket, prefix=prefix, narrower=narrower
            )
            return replace(self, base=f"{self.bucket}/"), objects
        plain = plain_prefix(prefix)
        glob = plain + "**"
        if levels_below is not None:
            glob = plain + _any_name(prefix[len(plain) :].count("/") + levels_below)
        function = self.table_function(glob, file_format="One")
        sql = Sql(f"SELECT _path, _size, _etag, toUnixTimestamp(_time) FROM {function.text}", function.secrets)
        rows = yield from Query(name=f"List {glob} through ClickHouse", sql=sql, settings=READ_SETTINGS)
        listed = [
            S3Object(path, size, etag.strip('"'), datetime.fromtimestamp(written, UTC))
            for path, size, etag, written in rows
        ]
        return replace(self, base=self.base_of(listed, plain)), listed

    def base_of(self, listed: Sequence[S3Object], prefix: str) -> str:
        """Return the part of all paths before the prefix: the bucket, and the rest of the collection's URL."""
        if not listed or not self.credentials.named_collection:
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
            )
            for kind, paths in groups.items()
        ]

    def _shared_prefix(self, paths: Sequence[str]) -> str:
        # In sorted order the first and last paths share the shortest prefix.
        first, last = paths[0][len(self.base) :], paths[-1][len(self.base) :]
        differ_at = (at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
        return plain_prefix(first[: next(differ_at, min(len(first), len(last)))])

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


def _any_name(levels: int) -> str:
    """Return a glob for all names this many levels down. `**` matches no braces below its first level."""
    return "*" + "/*" * levels


def plain_prefix(text: str) -> str:
    """Return the longest prefix of a key that is literal in a glob."""
    matched = _PLAIN.match(text)
    return matched[0] if matched else ""


def _selected(objects: Iterable[S3Object], keys: MonthKeys, base: str) -> Iterator[S3Object]:
    for each in objects:
        key = each.path[len(base) :]
        if keys.select(key, each.size_bytes):
            check_readable(each, key)
            yield each


def check_readable(each: S3Object, key: str) -> None:
    """Check that ClickHouse can read an object.

    Args:
        each: The object.
        key: Its key.

    Raises:
        SourceError: If something in its key means something else to ClickHouse.
    """
    if unreadable := next((part for part in _UNREADABLE if part in key), ""):
        raise SourceError(
            f"ClickHouse cannot read {each.path}: {unreadable!r} in a key means something else to it. Copy the "
            "object to another key, or leave it out with key=…."
        )
