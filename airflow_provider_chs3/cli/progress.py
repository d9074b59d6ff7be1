"""The progress of a command: in lines, and on a terminal in bars."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from airflow_provider_chs3.cli.loads import ChosenLoad
    from airflow_provider_chs3.client.runner import ProgressLog


class Lines:
    """Lines about what is done.

    Args:
        out: Takes the lines; None if the result is for a program.
    """

    #: Takes what is being done.
    log: ProgressLog = logging.getLogger(__name__)

    def __init__(self, out: TextIO | None) -> None:
        self.out = out

    def tell(self, line: str) -> None:
        """Write a line that stays."""
        if self.out:
            print(line, file=self.out, flush=True)

    def through(self, loads: Sequence[ChosenLoad]) -> Iterator[ChosenLoad]:
        """Yield the loads, each once the one before is done."""
        yield from loads
