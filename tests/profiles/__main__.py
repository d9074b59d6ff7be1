"""Three nights of loads under every setting of a server: `python -m tests.profiles --all`, or `--cases 500 --seed 7`.

With `--together 8` a profile has eight settings at once; where such a load is refused, each of them has one of its own.
Each case goes to a file as a line of JSON; `--resume FILE` leaves out what is there, as long as the sources of the
package are the same. The totals are over all seeds of the file.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from airflow_provider_chs3.core.load import retry_policy
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.s3 import S3Server
from tests.profiles.hostile import Case, Hostile, alone, at_random, in_turn
from tests.profiles.run import carry_out
from tests.support.protocol_sources import protocol_hash
from tests.tested import commit


def main() -> int:
    """Run the cases, and say what became of them."""
    os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="chs3-airflow-"))
    os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    parser = argparse.ArgumentParser(prog="python -m tests.profiles", description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every setting in turn, at each place")
    parser.add_argument("--together", type=int, default=1, help="settings of a profile with --all (%(default)s)")
    parser.add_argument("--cases", type=int, default=100, help="how many at random (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of those at random (%(default)s)")
    parser.add_argument("--resume", type=Path, help="the file of results, made if it is not there")
    parser.add_argument("--only", default="", help="only cases whose name holds this")
    given = parser.parse_args()
    # Waiting frees nothing under such a profile.
    retry_policy.WAIT_SECONDS = 0
    with ClickHouseCluster.start(1) as cluster:
        hostile = Hostile(cluster)
        if given.all:
            cases = in_turn(hostile, together=given.together)
        else:
            cases = at_random(hostile, cases=given.cases, seed=given.seed)
    results = given.resume or Path(tempfile.mkstemp(suffix=".jsonl")[1])
    cases = [case for case in cases if given.only in case.name]
    told = {"code": protocol_hash(), "commit": commit(), "seed": "in turn" if given.all else given.seed}
    print(f"{len(hostile.names)} settings, {len(cases)} cases, results in {results}", flush=True)
    with S3Server.start() as s3:
        _run(s3, cases, results, told)
        refused = {line["name"] for line in _now(results) if line["outcome"] == "refused"}
        together = [case for case in cases if len(case.settings) > 1 and case.name in refused]
        if given.all:
            _run(s3, [each for case in together for each in alone(case)], results, told)
    return _report(_now(results))


def _run(s3: S3Server, cases: list[Case], results: Path, told: dict[str, Any]) -> None:
    """Carry out what has not been carried out by this code."""
    done = {line["name"] for line in _now(results)}
    left = [case for case in cases if case.name not in done]
    print(f"{len(left)} cases are left", flush=True)
    # Loads tell what they do to a standard output that nobody reads here.
    terminal = sys.stdout
    with (
        results.open("a", encoding="utf-8") as file,
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
    ):
        for case, outcome in carry_out(s3, left):
            line = {"name": case.name, **told, **case.as_json()}
            line |= {"outcome": outcome.kind, "error": outcome.error, "seconds": outcome.seconds}
            print(json.dumps(line), file=file, flush=True)
            if not outcome.is_right:
                print(f"{outcome.kind.upper()}: {case.name}: {outcome.error}", file=terminal, flush=True)


def _now(results: Path) -> list[dict[str, Any]]:
    """Return the results of this code so far."""
    if not results.exists():
        return []
    lines = (json.loads(line) for line in results.read_text(encoding="utf-8").splitlines())
    code = protocol_hash()
    return [line for line in lines if line["code"] == code]


def _report(now: list[dict[str, Any]]) -> int:
    kinds = Counter(line["outcome"] for line in now)
    seeds, commits = (sorted({str(line[key]) for line in now}) for key in ("seed", "commit"))
    print(f"{len(now)} cases: {dict(kinds)}; seeds {', '.join(seeds)}; commits {', '.join(commits)}")
    return 0 if kinds.keys() <= {"exact", "refused"} else 1


if __name__ == "__main__":
    sys.exit(main())
