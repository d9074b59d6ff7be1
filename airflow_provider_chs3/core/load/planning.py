"""Plan a load: which objects it reads, which of their columns, and with which settings."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_chs3.core.attempt.discovery import needed_by
from airflow_provider_chs3.core.attempt.history import read_history
from airflow_provider_chs3.core.attempt.insert_plan import InsertPlan, plan_insert, read_files
from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.attempt.new_columns import settle_new_columns
from airflow_provider_chs3.core.attempt.warnings import warn_of_risks
from airflow_provider_chs3.core.cluster.node_capacity import ask_nodes_now
from airflow_provider_chs3.core.increment.decision import why_not_alone
from airflow_provider_chs3.core.load.month_check import MonthToLoad
from airflow_provider_chs3.core.preflight.profile_constraints import check_passed_on, check_taken
from airflow_provider_chs3.core.proof.whole_objects import prove_whole
from airflow_provider_chs3.core.values.models import Month
from airflow_provider_chs3.core.workflow.operations import Gather, Log, Steps


@dataclass(frozen=True, kw_only=True)
class ComparedMonth:
    """A month to load, compared with the ledger.

    Args:
        load: Its load: of its new objects alone, or of all.
        to_load: What the comparison found.
    """

    load: LoadContext
    to_load: MonthToLoad

    @property
    def month(self) -> Month:
        """The month."""
        return self.load.request.month


def plan_load(compared: ComparedMonth) -> Steps[tuple[LoadContext, InsertPlan]]:
    """Plan the load of a month: of the new objects if they can be loaded alone, else of all.

    Args:
        compared: The month.

    Returns:
        The load of the objects that are read, and its plan.
    """
    load = compared.load
    plan = yield from plan_objects(load)
    if load.increment and (why := why_not_alone(load, compared.to_load.before, plan.reading)):
        yield from Log(name=f"Loading all objects: {why}.")
        load = load.whole()
        plan = yield from plan_objects(load)
    return load, plan


def plan_objects(load: LoadContext) -> Steps[InsertPlan]:
    """Look at the nodes and at the objects of the load, and plan its insert.

    Args:
        load: The load.

    Raises:
        PreflightError: If the nodes have no room, or settings are forbidden.
        SourceError: If one was cut off, lacks a column or contradicts the others.
        ConfigurationError: If columns, expressions, settings or node specs do not fit.
        TransientError: If the target has too many parts, or memory did not suffice before.
        ColumnsAddedError: If the target got columns that the files have.
    """
    own = {name: value for name, value in load.request.settings.items() if name in load.context.known_settings}
    looks = (
        check_taken(own),
        check_passed_on(load.context, {**load.files.neutral, **needed_by(load.request), **load.files.settings}),
        ask_nodes_now(load.context, partition_id=load.key.partition_id),
        # Of one that was cut off, columns may be missing: the first error counts.
        prove_whole(load),
        read_files(load),
        read_history(load),
    )
    _, _, now, _, reading, history = yield from Gather(name="Look at nodes and files", workflows=looks)
    yield from settle_new_columns(load, reading)
    yield from warn_of_risks(load, now)
    return (yield from plan_insert(load, now, reading, history))
