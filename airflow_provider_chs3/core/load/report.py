"""What a load took, in a few lines at the end of its log, before the one that sums it up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_provider_chs3.core.values.models import LoadResult

#: A node that has so many times the rows of the average one did most of the work by itself.
_UNEVEN = 2.0
#: Parts that a node may have at publishing without a word: about what a month of one load has.
_MANY_PARTS = 10


def report(result: LoadResult) -> str:
    """What was read, how long it took, where the rows are, and what is worth a look; empty where nothing was inserted.

    Args:
        result: What the load did.
    """
    if result.status not in ("published", "appended") or not result.insert_seconds:
        return ""
    lines = [
        ("source", f"{result.objects:,} objects, {_size(result.source_bytes)}"),
        ("rows", _rows(result)),
        ("insert", _insert(result)),
        *((("time", _time(result.seconds_by_step)),) if result.seconds_by_step else ()),
        *((("parts", f"{result.parts:,} on {len(result.rows_by_node)} nodes"),) if result.rows_by_node else ()),
        *(("look at", each) for each in _worth_a_look(result)),
    ]
    told = "".join(f"\n  {name + ':':<9}{text}" for name, text in lines)
    return f"What it took:{told}"


def _rows(result: LoadResult) -> str:
    nodes = ", ".join(f"{rows:,} on {node}" for node, rows in result.rows_by_node.items())
    left_out = f"; {result.other_month_rows:,} of other months left out" if result.other_month_rows else ""
    return f"{result.rows:,}{f' ({nodes})' if len(result.rows_by_node) > 1 else ''}{left_out}"


def _insert(result: LoadResult) -> str:
    seconds, source_bytes = result.insert_seconds, result.source_bytes
    peak = f", at most {_size(result.peak_memory_bytes)} of memory on a node" if result.peak_memory_bytes else ""
    return f"{seconds:,.1f} s, {result.rows / seconds:,.0f} rows/s, {_size(source_bytes / seconds)}/s of objects{peak}"


def _time(seconds_by_step: Mapping[str, float]) -> str:
    steps = ", ".join(f"{name.replace('_', ' ')} {seconds:,.1f} s" for name, seconds in seconds_by_step.items())
    return f"{sum(seconds_by_step.values()):,.1f} s in all: {steps}"


def _worth_a_look(result: LoadResult) -> Iterator[str]:
    nodes = len(result.rows_by_node)
    if 0 < result.objects < nodes:
        yield f"there are fewer objects ({result.objects}) than nodes ({nodes}), so that some read nothing: write more"
    elif nodes > 1 and max(result.rows_by_node.values()) > _UNEVEN * sum(result.rows_by_node.values()) / nodes:
        yield "nodes have uneven shares of the rows, and the busiest one sets the pace: write objects of one size"
    if result.parts > _MANY_PARTS * nodes > 0:
        yield f"{result.parts:,} parts are many: wait for merges before the next load (docs/merge-health.md)"
    if result.query_ids:
        yield f"system.query_log, query id {', '.join(result.query_ids[:3])}"


def _size(size_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:,.0f} {unit}" if unit == "B" else f"{size_bytes:,.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:,.1f} TiB"
