"""Create the table and objects of a rehearsal, and remove them afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_provider_chs3.cli.rehearsed_objects import RehearsedObjects
from airflow_provider_chs3.core.cluster.topology import TableLocation
from airflow_provider_chs3.core.rehearsal.cleaning import Cleaned, clean_after
from airflow_provider_chs3.core.rehearsal.scratch import Plan, Where, create_table, plan_table
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.exceptions import Chs3Error, TransientError
from airflow_provider_chs3.runners.blocking import Runner

#: What to do about anything left behind.
CLEAN = "run `rehearse --clean` with the same arguments when it can be reached again"


@contextmanager
def stage(
    runner: Runner, where: Where, objects: RehearsedObjects, *, warn: Callable[[str], object]
) -> Iterator[tuple[Node, ...]]:
    """Create the table of a rehearsal, yield its nodes, and remove everything that the rehearsal created.

    Args:
        runner: The runner of the steps.
        where: The place.
        objects: The rehearsal's objects.
        warn: Called with anything left behind, if the rehearsal ends with another error.

    Raises:
        Chs3Error: If the table cannot be created, or something is left behind.
    """
    plan: Plan = runner.run(plan_table(where))
    try:
        runner.run(create_table(plan))
        yield plan.location.nodes
    except BaseException:
        # Also after Ctrl-C: an interrupted load leaves staging and queries behind.
        for left in _remove_all(runner, plan.location, objects):
            warn(f"{left}; {CLEAN}.")
        raise
    if left := "; ".join(_remove_all(runner, plan.location, objects)):
        raise TransientError(f"{left}; {CLEAN}.")


def _remove_all(runner: Runner, location: TableLocation, objects: RehearsedObjects) -> Iterator[str]:
    """Remove what the rehearsal created, and report anything left behind."""
    try:
        objects.delete_own()
    except Exception as error:
        # Airflow's connection and boto3's chain of credentials raise different errors.
        yield f"left {objects.folder} under {objects.where} ({error})"
    try:
        cleaned: Cleaned = runner.run(clean_after(location))
    except Chs3Error as error:
        yield f"left {location.target}, with staging and records ({error})"
    else:
        yield from filter(None, (cleaned.left,))
