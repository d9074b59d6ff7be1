"""Listing all periods of a bucket, near and far: plain boto3, and this package, which also folds them into prints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from tests.benchmarks.forked import Forked, Taken
from tests.benchmarks.lake import months
from tests.benchmarks.lister import Listing, ListingResult, list_as_boto3_does, list_as_we_do
from tests.benchmarks.made_up import MadeUp, made_up_server
from tests.benchmarks.rounds import Table, Verdict
from tests.benchmarks.suite import TrialContext

TITLE = "Listing"

_PERIODS = months(2010, 200)
_FAR_SECONDS = 0.1
_SIZES, _LARGEST = (10_000, 100_000, 1_000_000), 10_000_000
#: Plain boto3 takes minutes for more, and nothing that fewer do not tell.
_MOST_PLAIN = 100_000
_CPU_MS, _SECONDS = 20.0, 30.0
#: What Python does not give back is no growth.
_FLAT_MIB = 16.0
_PLAIN, _PACKAGE = "plain boto3", "this package"
_WAYS: dict[str, Callable[[Listing], ListingResult]] = {_PLAIN: list_as_boto3_does, _PACKAGE: list_as_we_do}


def run(bench: TrialContext) -> Iterator[Table]:
    """List more and more objects, which a server makes up."""
    rows, plain_ms, verdicts, memory = [], 0.0, [], {}
    for seconds in (0.0, _FAR_SECONDS):
        for full in (*_SIZES, *([] if seconds else [_LARGEST])):
            if bench.is_quick and full > _MOST_PLAIN:
                continue
            of_each = max(1, bench.sized(full=full, quick=full) // len(_PERIODS))
            objects = MadeUp(periods=_PERIODS, of_each=of_each, seconds=seconds)
            for way in [_PLAIN, _PACKAGE] if full <= _MOST_PLAIN else [_PACKAGE]:
                bench.say(f"{way}: {objects.count:,} objects, {seconds:g} s away")
                taken, server_cpu_seconds = _list(objects, way)
                cpu_ms = taken.result.cpu_seconds / taken.result.objects * 1e6
                plain_ms = cpu_ms if way == _PLAIN else plain_ms
                rows.append(_row(objects, way, taken, cpu_ms, cpu_ms / plain_ms, server_cpu_seconds))
                if way == _PACKAGE:
                    verdicts += _verdicts(full, seconds, cpu_ms, taken.result.seconds)
                    memory[full] = taken.memory_mib
    grown = max(memory.values()) - memory[min(memory)]
    flat = Verdict(
        claim=f"memory is flat: the most objects take at most {_FLAT_MIB:g} MiB more than the fewest",
        found=f"{grown:.1f} MiB",
        is_met=grown <= _FLAT_MIB,
    )
    yield Table(
        title=f"Listing {len(_PERIODS)} periods from a server that generates its pages",
        rows=rows,
        verdicts=[*verdicts, flat],
    )


def _list(objects: MadeUp, way: str) -> tuple[Taken, float]:
    """Return its cost, and the CPU seconds of the server."""
    with made_up_server(objects) as server:
        connection = {"AIRFLOW_CONN_AWS_DEFAULT": json.dumps(server.endpoint.airflow_connection())}
        given = Listing(key=objects.key, prefix=objects.key.partition("{")[0])
        before = server.cpu_seconds()
        taken = Forked(_WAYS[way], given, connection).taken()
        if taken.result.objects != objects.count:
            raise RuntimeError(f"{taken.result.objects:,} objects were listed of {objects.count:,}.")
        return taken, server.cpu_seconds() - before


def _row(
    objects: MadeUp, way: str, taken: Taken, cpu_ms: float, ratio: float, server_cpu_seconds: float
) -> dict[str, str | float]:
    return {
        "objects": f"{objects.count:,}",
        "ms away": f"{objects.seconds * 1000:.0f}",
        "way": way,
        "seconds": taken.result.seconds,
        "worker's CPU seconds": taken.result.cpu_seconds,
        "CPU ms for 1,000 keys": f"{cpu_ms:.1f}",
        "ratio to plain boto3": ratio,
        "worker's MiB above Airflow's": taken.memory_mib,
        "server's CPU seconds": server_cpu_seconds,
    }


def _verdicts(objects: int, away: float, cpu_ms: float, seconds: float) -> Iterator[Verdict]:
    if objects == _SIZES[-1]:
        claim = f"{objects:,} objects {away * 1000:.0f} ms away"
        yield Verdict(
            claim=f"{claim}, CPU ms for 1,000 keys: at most {_CPU_MS:g}",
            found=f"{cpu_ms:.1f}",
            is_met=cpu_ms <= _CPU_MS,
        )
        if away:
            yield Verdict(
                claim=f"{claim}, seconds: at most {_SECONDS:g}", found=f"{seconds:.1f}", is_met=seconds <= _SECONDS
            )
