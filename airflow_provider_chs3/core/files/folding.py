"""Fold listed objects into their periods, page by page: a bucket's keys may not fit into memory."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import islice
from operator import lt

from airflow_provider_chs3.core.files.key_template import END, KeyTemplate
from airflow_provider_chs3.core.model.models import Fingerprint, ObjectPage, PeriodObjects
from airflow_provider_chs3.core.model.period import Period

#: The beginning of levels that do not count, and the end of folders; `PeriodKeys.select` is the same for one key.
_MAYBE_NO_DATA = re.compile(f"/[_.{END}]")


class FoldedPeriod:
    """A period's objects, folded into their number, size and fingerprint, which is valid only if `is_sorted`."""

    def __init__(self) -> None:
        self.count = self.size_bytes = 0
        self.is_sorted = True
        self._last_path = ""
        self._fingerprint = Fingerprint()

    @property
    def summary(self) -> PeriodObjects:
        """The objects, as far as a comparison needs them."""
        return PeriodObjects(self.count, self.size_bytes, str(self._fingerprint))

    def add(self, paths: Sequence[str], sizes_bytes: Sequence[int], etags: Sequence[str]) -> None:
        """Add objects, given as columns; there is at least one."""
        self.count += len(paths)
        self.size_bytes += sum(sizes_bytes)
        self.is_sorted = self.is_sorted and self._last_path < paths[0] and all(map(lt, paths, islice(paths, 1, None)))
        self._last_path = paths[-1]
        self._fingerprint.add(paths, sizes_bytes, etags)


class Folding:
    """Folds pages into the objects of each period."""

    def __init__(self, template: KeyTemplate, base: str, wanted: Collection[Period] | None) -> None:
        self.periods: dict[Period, FoldedPeriod] = {}
        self._template = template
        self._start = len(base)
        self._runs = template.runs(base)
        self._wanted = wanted

    def add(self, page: ObjectPage) -> None:
        """Add the objects of a page to their periods."""
        paths, at, start = page.paths, 0, 0
        text = "".join([f"{path}{END}" for path in paths])
        while at < len(paths):
            run = self._runs.match(text, start)
            if run is None:
                start += len(paths[at]) + 1
                at += 1
                continue
            until = at + text.count(END, start, run.end())
            period = self._period_of(run, paths[at])
            if period is not None and (self._wanted is None or period in self._wanted):
                self._add_run(period, run, paths[at:until], page.sizes_bytes[at:until], page.etags[at:until])
            at, start = until, run.end()

    def _period_of(self, run: re.Match[str], path: str) -> Period | None:
        template = self._template
        return template.period_in(run) if template.is_read_in_one_way else template.period_of(path[self._start :])

    def _add_run(
        self, period: Period, run: re.Match[str], paths: Sequence[str], sizes_bytes: Sequence[int], etags: Sequence[str]
    ) -> None:
        if 0 in sizes_bytes or _MAYBE_NO_DATA.search(run.string, run.start(), run.end()):
            # The slash before the first level is part of the beginning.
            length = len(run["beginning"]) - run["beginning"].endswith("/")
            objects = [
                listed
                for listed in zip(paths, sizes_bytes, etags, strict=True)
                if listed[1] and not _MAYBE_NO_DATA.search(f"{listed[0]}{END}", length)
            ]
            if not objects:
                return
            paths, sizes_bytes, etags = zip(*objects, strict=True)
        self.periods.setdefault(period, FoldedPeriod()).add(paths, sizes_bytes, etags)
