"""The report of a load in its task's log: source, rows, speed, steps, parts, and what is worth a look."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from airflow_provider_chs3.core.arguments.check_arguments import text_of
from airflow_provider_chs3.core.model.quantities import objects_text, quantity, size_text

if TYPE_CHECKING:
    from airflow_provider_chs3.core.load.decision import LoadResult

#: From this many times the average rows, a node did most of the work by itself.
_UNEVEN = 2.0
#: Parts of a node that are no reason for a remark: about those of a single load.
_MANY_PARTS = 10


#: Settings that decide the speed and memory of a load, with their format.
_SHOWN_SETTINGS: Mapping[str, Callable[[float], str]] = {
    "max_threads": "{:,.0f}".format,
    "max_insert_threads": "{:,.0f}".format,
    "min_insert_block_size_bytes": size_text,
    "max_memory_usage": size_text,
}


def report(result: LoadResult) -> str:
    """Describe a load in a block of text: summary, source, rows, steps."""
    if result.status not in ("published", "held") or not result.insert_seconds:
        return result.summary()
    return result.summary() + "".join(f"\n  {name + ':':<10}{text}" for name, text in _lines(result))


def _lines(result: LoadResult) -> Iterator[tuple[str, str]]:
    if result.objects:
        yield "source", _describe_source(result)
    yield "rows", _describe_rows(result)
    yield "insert", _describe_insert(result)
    if spent := result.seconds_by_step:
        steps = ", ".join(f"{name.replace('_', ' ')} {seconds:,.1f} s" for name, seconds in spent.items())
        yield "steps", f"{sum(spent.values()):,.1f} s in all: {steps}"
    if result.status == "published":
        yield "parts", f"{result.parts:,} on {quantity(len(result.rows_by_node), 'node')}"
    if checks := result.checks:
        passed = sum(check.has_passed for check in checks)
        yield "checks", f"{passed} of {len(checks)} passed" + (f"; {text_of(checks)}" if passed < len(checks) else "")
    settings = {name: show for name, show in _SHOWN_SETTINGS.items() if name in result.settings}
    if settings:
        yield "settings", ", ".join(f"{name} {show(float(result.settings[name]))}" for name, show in settings.items())
    for remark in _find_remarks(result):
        yield "look at", remark


def _describe_source(result: LoadResult) -> str:
    everything = objects_text(result.objects, result.source_bytes)
    if result.loaded_objects == result.objects:
        return everything
    new = f"{quantity(result.loaded_objects, 'new object')}, {size_text(result.loaded_bytes)}"
    return f"{new}; {everything}, with those published before"


def _describe_rows(result: LoadResult) -> str:
    nodes = ", ".join(f"{rows:,} on {node}" for node, rows in result.rows_by_node.items())
    left_out = f"; {result.other_period_rows:,} of other periods left out" if result.other_period_rows else ""
    if result.status == "held":
        return f"{result.loaded_rows:,} staged and held{left_out}"
    new = f", {result.loaded_rows:,} of them new" if result.loaded_objects < result.objects else ""
    return f"{result.rows:,}{new}{f' ({nodes})' if len(result.rows_by_node) > 1 else ''}{left_out}"


def _describe_insert(result: LoadResult) -> str:
    seconds = result.insert_seconds
    peak = f", peak memory {size_text(result.peak_memory_bytes)} on a node" if result.peak_memory_bytes else ""
    # The size of rows from a database is an estimate.
    size = f", {size_text(result.loaded_bytes / seconds)}/s of objects" if result.objects else ""
    return f"{seconds:,.1f} s, {result.loaded_rows / seconds:,.0f} rows/s{size}{peak}"


def _find_remarks(result: LoadResult) -> Iterator[str]:
    nodes = len(result.rows_by_node)
    if 0 < result.objects < nodes:
        yield (
            f"there are fewer objects ({result.objects}) than nodes ({nodes}), so some nodes read nothing: write more "
            "objects"
        )
    elif nodes > 1 and max(result.rows_by_node.values()) > _UNEVEN * sum(result.rows_by_node.values()) / nodes:
        way_out = "write objects of similar size" if result.objects else "set a key_column whose values spread evenly"
        yield f"nodes have uneven shares of the rows, and the busiest one sets the pace: {way_out}"
    if result.parts > _MANY_PARTS * nodes > 0:
        yield f"{result.parts:,} parts are a lot: wait for merges before the next load (docs/merge-health.md)"
    if result.query_ids:
        yield f"system.query_log, query id {', '.join(result.query_ids[:3])}"
