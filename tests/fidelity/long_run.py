"""Cases one after the other, each by its seed and number, each in the file of results."""

from __future__ import annotations

import random
import re
import time
import traceback
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.fidelity.generate import generate
from tests.fidelity.pens import NoSuchValueError
from tests.fidelity.record import Record, versions
from tests.fidelity.reducing import reduced
from tests.fidelity.running import BROKEN, Outcome, run
from tests.fidelity.showing import shown

if TYPE_CHECKING:
    from tests.fidelity.cases import Case
    from tests.support.lake import Lake


class LongRun:
    """Runs cases of one seed."""

    def __init__(
        self,
        lake: Lake,
        record: Record,
        *,
        seed: int,
        formats: tuple[str, ...],
        server_zones: tuple[str, ...],
    ) -> None:
        """Use a lake and a file of results."""
        self._lake = lake
        self._record = record
        self._seed = seed
        self._formats = formats
        self._server_zones = server_zones
        #: Causes that a smallest case is known of.
        self._seen = {tuple(line["cause"].split(" | ")) for line in record.current() if line["is_fault"]}
        self._versions = versions(lake.on_node(0, "SELECT version()")[0][0])

    def case(self, number: int) -> Case:
        """A case; the same for the same seed, number and formats."""
        attempt = 0
        while True:
            try:
                choose = random.Random(f"{self._seed}:{number}:{attempt}")
                return generate(choose, formats=self._formats, server_zones=self._server_zones)
            except NoSuchValueError:
                attempt += 1

    def run(self, cases: int, *, stop_after: int) -> int:
        """Run all cases that are not in the file of results yet."""
        done, faults, began, ran = self._record.done(self._seed), 0, time.monotonic(), 0
        for number in range(cases):
            if number in done:
                continue
            line = self._one(number)
            self._record.add(line)
            ran += 1
            faults += line["is_fault"]
            if line["is_fault"]:
                print(f"case {number}: {line['outcome']} {line['summary']}", flush=True)
            if stop_after and faults >= stop_after:
                break
        print(f"{ran} cases in {time.monotonic() - began:.0f} s")
        print(self._record.report().splitlines()[0])
        self._totals()
        return 1 if faults else 0

    def _totals(self) -> None:
        outcomes = Counter(line["outcome"] for line in self._record.current())
        print(*(f"  {count:6} {outcome}" for outcome, count in outcomes.most_common()), sep="\n")

    def _one(self, number: int) -> dict[str, Any]:
        case = self.case(number)
        began = time.monotonic()
        outcome = self._run(case)
        line = self._versions | {
            "seed": self._seed,
            "case": number,
            "format": case.format,
            "formats": list(self._formats),
            "outcome": outcome.kind,
            "is_fault": outcome.is_fault,
            "seconds": round(time.monotonic() - began, 3),
            "message": outcome.message[:1000],
            "details": outcome.details,
            "summary": "",
            "cause": "",
        }
        if outcome.is_fault:
            small, of_small, kind = case, outcome, _kind_of(case, outcome)
            line["cause"] = " | ".join(kind)
            if kind not in self._seen:
                self._seen.add(kind)
                small, of_small = reduced(case, outcome, self._run)
            line |= {"smallest": shown(small, of_small, self._lake.cluster.nodes[0]), "summary": summary(of_small)}
        return line

    def _run(self, case: Case) -> Outcome:
        try:
            return run(case, self._lake)
        except Exception:
            # A fault of this test; the others go on.
            return Outcome(BROKEN, traceback.format_exc()[-1500:])

    def show(self, number: int) -> int:
        """Run one case, and print all of it: table, files, and what came of it."""
        case = self.case(number)
        outcome = self._run(case)
        print(shown(case, outcome, self._lake.cluster.nodes[0]))
        if outcome.is_fault:
            small, of_small = reduced(case, outcome, self._run)
            print("\nThe smallest that fails so:\n" + shown(small, of_small, self._lake.cluster.nodes[0]))
        return int(outcome.is_fault)


def _kind_of(case: Case, outcome: Outcome) -> tuple[str, ...]:
    """Faults that are likely to be of one cause."""
    column = re.sub(r"\d+|'[^']*'", "", outcome.details.get("column", "").partition(" ")[2])
    message = re.sub(r"\d+|'[^']*'|`[^`]*`|\S*/\S*", "", outcome.message)[:60]
    return case.format, outcome.kind, column, message


def summary(outcome: Outcome) -> str:
    """A fault in a line."""
    return " ".join([*(f"{name}={value}" for name, value in outcome.details.items()), outcome.message])[:600]
