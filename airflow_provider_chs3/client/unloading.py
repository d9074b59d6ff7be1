"""Unload a period: have nodes write its rows, prove the files, name them in the manifest, delete the older ones."""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.exchange import unload_steps as steps
from airflow_provider_chs3.core.exchange.unload_manifest import UnloadedFile, UnloadManifest
from airflow_provider_chs3.exceptions import Chs3Error, SourceError, TransientError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_chs3.client.runner import Runner
    from airflow_provider_chs3.client.shared_objects import SharedObjects
    from airflow_provider_chs3.core.exchange.unload_manifest import Fingerprint
    from airflow_provider_chs3.core.exchange.unload_request import UnloadRequest
    from airflow_provider_chs3.core.exchange.unload_steps import UnloadContext


class Unload:
    """An attempt at unloading a period. Whatever ends it, the manifest names files that hold a whole period.

    The manifest is swapped: the write fails if another attempt has written one since this attempt read it. Only what
    was listed before that write is deleted after it. An attempt whose files were there by then has read an older
    manifest, so its own write fails; one that reads this manifest writes later, and its files stay.
    """

    def __init__(self, *, request: UnloadRequest, runner: Runner, objects: SharedObjects) -> None:
        self._request = request
        self._runner = runner
        self._objects = objects
        self._log = runner.log
        self._attempt = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:12]}"
        self._context: UnloadContext | None = None

    def run(self) -> dict[str, Any]:
        """Unload, and return the result."""
        started = time.monotonic()
        context = self._context = self._runner.run(steps.inspect(self._request))
        held, etag = self._held(context)
        fingerprints = self._runner.run(steps.fingerprints(context, self._attempt))
        listed = self._objects.listed(self._request.folder)
        status = "unchanged"
        if held is None or not held.holds(context.columns, fingerprints) or not held.are_there(listed):
            status = "unloaded"
            held = self._write(context, fingerprints, etag)
        self._objects.delete(key for key in held.obsolete if key in listed)
        self._log.info("%s %s %s: %d rows in %d files.", held.table, held.period, status, held.rows, len(held.files))
        return self._result(status, held, time.monotonic() - started)

    def cancel(self, runner: Runner) -> None:
        """End the statements that are running on the nodes."""
        if self._context:
            runner.run(steps.cancel(self._context, self._attempt))

    def _held(self, context: UnloadContext) -> tuple[UnloadManifest | None, str | None]:
        """Return the manifest that is there, and its ETag."""
        key = self._request.manifest_key
        if (read := self._objects.read(key)) is None:
            return None, None
        body, etag = read
        where = f"s3://{self._objects.bucket}/{key}"
        held = UnloadManifest.of_text(body, where)
        if (held.table, held.period) != (str(context.target), str(self._request.period)):
            raise SourceError(
                f"{where} belongs to {held.table}, {held.period}: set another key for {context.target}, or the unload "
                "would delete the other table's objects."
            )
        return held, etag

    def _write(
        self, context: UnloadContext, fingerprints: Mapping[str, Fingerprint], etag: str | None
    ) -> UnloadManifest:
        self._log.info(
            "Unload %d rows on %d nodes.",
            sum(fingerprint.rows for fingerprint in fingerprints.values()),
            len(fingerprints),
        )
        try:
            manifest = self._written(context, fingerprints)
        except Chs3Error:
            self._forget(fingerprints)
            raise
        # An error from here on may be that of a write that took effect: the files stay.
        if not self._objects.swap(self._request.manifest_key, manifest.as_text().encode(), etag):
            held, _ = self._held(context)
            if held is None or held.attempt != self._attempt:
                self._forget(fingerprints)
                raise TransientError(
                    f"Another task unloaded {context.target} {self._request.period} meanwhile: a retry "
                    "checks what it wrote."
                )
        return manifest

    def _forget(self, fingerprints: Mapping[str, Fingerprint]) -> None:
        """Delete the objects that were written; a later unload deletes those that remain."""
        with suppress(Chs3Error):
            self._objects.delete(self._keys(fingerprints))

    def _written(self, context: UnloadContext, fingerprints: Mapping[str, Fingerprint]) -> UnloadManifest:
        request, attempt = self._request, self._attempt
        nodes = {name: node for name, node in context.nodes.items() if name in fingerprints}
        self._runner.run(steps.write(context, request, attempt, nodes))
        written = self._runner.run(steps.read_back(context, request, attempt, nodes))
        if written != fingerprints:
            self._explain(context, fingerprints, written)
        listed = self._objects.listed(request.folder)
        keys = self._keys(fingerprints)
        return UnloadManifest(
            table=str(context.target),
            period=str(request.period),
            columns=context.columns,
            attempt=attempt,
            files=tuple(
                UnloadedFile(
                    key=key, node=name, fingerprint=written[name], size_bytes=listed[key][0], etag=listed[key][1]
                )
                for name, key in zip(fingerprints, keys, strict=True)
            ),
            obsolete=tuple(sorted(key for key in listed if request.is_of_an_attempt(key) and key not in keys)),
        )

    def _keys(self, fingerprints: Mapping[str, Fingerprint]) -> list[str]:
        return [self._request.file_key(self._attempt, name) for name in fingerprints]

    def _explain(
        self, context: UnloadContext, fingerprints: Mapping[str, Fingerprint], written: Mapping[str, Fingerprint]
    ) -> None:
        """Explain why files do not hold the rows that were found."""
        what = f"{context.target} {self._request.period}"
        if self._runner.run(steps.fingerprints(context, self._attempt)) != fingerprints:
            raise TransientError(f"{what} changed while it was unloaded: the retry unloads it again.")
        name = next(name for name in fingerprints if written.get(name) != fingerprints[name])
        rows = written[name].rows if name in written else 0
        raise VerificationError(
            f"{what} on {context.nodes[name]}: the file, read back, holds {rows} rows, and the table has "
            f"{fingerprints[name].rows}; or their values differ. Parquet cannot hold a column of this table: convert "
            "it in another table or view, and unload that."
        )

    def _result(self, status: str, manifest: UnloadManifest, seconds: float) -> dict[str, Any]:
        return {
            "status": status,
            "table": manifest.table,
            "period": manifest.period,
            "rows": manifest.rows,
            "bytes": manifest.size_bytes,
            "files": [file.key for file in manifest.files],
            "manifest": self._request.manifest_key,
            "seconds": round(seconds, 3),
        }
