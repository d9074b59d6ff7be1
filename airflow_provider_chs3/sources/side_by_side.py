"""Prefixes listed in parallel, a page at a time, so that memory does not grow with the number of objects."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass
from typing import TypeAlias

from airflow_provider_chs3.core.model.models import ObjectPage

#: Requests at the same time: each takes a connection, and a MiB.
AT_ONCE = 12


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a listing."""

    objects: ObjectPage
    token: str | None


#: Asks for a page: of a prefix, the first one or the one that a token stands for.
Fetch: TypeAlias = Callable[[str, str | None], Page]
_Running: TypeAlias = dict["Future[Page]", tuple[str, str | None]]


def pages_of(fetch: Fetch, prefix: str, narrower: Callable[[str], Sequence[str]] | None) -> Iterator[ObjectPage]:
    """Yield the pages of a prefix.

    A prefix of one page takes one request. One that has more is cut, if it can be: its first page is asked for again in
    pieces, as to keep it a storage would have to be trusted to list in the order of keys. Pages of one piece come in
    their order, those of different pieces as they arrive.
    """
    page = fetch(prefix, None)
    pieces = narrower(prefix) if narrower and page.token else ()
    if pieces and narrower:
        yield from _side_by_side(fetch, pieces, narrower)
        return
    yield page.objects
    while page.token:
        page = fetch(prefix, page.token)
        yield page.objects


def _side_by_side(
    fetch: Fetch, prefixes: Sequence[str], narrower: Callable[[str], Sequence[str]]
) -> Iterator[ObjectPage]:
    # Only this thread decides what is asked for next, while it is asked for pages: who reads slowly is not sent more.
    waiting, running = deque(prefixes), _Running()
    pool = ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="chs3-listing")

    def ask(prefix: str, token: str | None) -> None:
        running[pool.submit(copy_context().run, fetch, prefix, token)] = prefix, token

    try:
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                ask(waiting.popleft(), None)
            ended = wait(running, return_when=FIRST_COMPLETED).done
            for future in [future for future in running if future in ended]:
                (prefix, token), page = running.pop(future), future.result()
                pieces = narrower(prefix) if token is None and page.token else ()
                # While enough waits, a whole prefix has fewer pages than its last pieces.
                if pieces and (len(waiting) < AT_ONCE or any(map(narrower, pieces))):
                    waiting.extendleft(reversed(pieces))
                    continue
                if page.token:
                    ask(prefix, page.token)
                yield page.objects
    finally:
        # After an error, others may be at their retries: nobody waits for them.
        pool.shutdown(wait=False, cancel_futures=True)
