"""The file of a long run: a line of JSON for each case, and what all of them add up to."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.protocol_sources import digest, protocol_hash
from tests.tested import commit


def generator_hash() -> str:
    """A digest of this test: a case's number means another case once it changes."""
    return digest(sorted(Path(__file__).parent.rglob("*.py")))


def versions(server: str) -> dict[str, str]:
    """Return the versions that ran."""
    import pyarrow

    return {
        "commit": commit(),
        "protocol": protocol_hash(),
        "generator": generator_hash(),
        "clickhouse": server,
        "pyarrow": pyarrow.__version__,
    }


class Record:
    """A file of results."""

    def __init__(self, path: Path) -> None:
        """Use a file, which need not be there yet."""
        self._path = path

    def lines(self) -> list[dict[str, Any]]:
        """All results so far, of whatever code."""
        if not self._path.exists():
            return []
        return [json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines()]

    def current(self) -> list[dict[str, Any]]:
        """Results of the code as it is now."""
        protocol = protocol_hash()
        return [line for line in self.lines() if line["protocol"] == protocol]

    def done(self, seed: int) -> set[int]:
        """Numbers of the cases that need not run again: the same cases, by the same code."""
        generator = generator_hash()
        return {line["case"] for line in self.current() if line["seed"] == seed and line["generator"] == generator}

    def add(self, line: dict[str, Any]) -> None:
        """One more result; it is in the file when this returns."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=True) + "\n")

    def report(self) -> str:
        """Totals over all seeds of the code as it is now, and each fault."""
        lines = self.current()
        if not lines:
            return "No case of this code yet."
        seeds = sorted({line["seed"] for line in lines})
        outcomes = Counter(line["outcome"] for line in lines)
        formats = Counter(line["format"] for line in lines)
        commits = sorted({line["commit"] for line in lines})
        told = [
            f"{len(lines)} cases of seeds {', '.join(map(str, seeds))}; commits {', '.join(commits)}; protocol "
            f"{lines[0]['protocol']}; ClickHouse {lines[-1]['clickhouse']}, pyarrow {lines[-1]['pyarrow']}",
            *(f"  {count:6} {outcome}" for outcome, count in outcomes.most_common()),
            "formats: " + ", ".join(f"{name} {count}" for name, count in sorted(formats.items())),
        ]
        faults: dict[str, list[dict[str, Any]]] = {}
        for line in lines:
            if line["is_fault"]:
                faults.setdefault(line["cause"], []).append(line)
        for alike in sorted(faults.values(), key=len, reverse=True):
            first = alike[0]
            told.append(
                f"{len(alike)} like seed {first['seed']} case {first['case']}: {first['format']}, {first['outcome']}: "
                f"{first['summary']}"
            )
        return "\n".join(told)
