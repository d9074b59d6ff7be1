"""The arguments of merges: of waiting for them, and of asking for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_chs3.core.arguments.declaration import Argument, Group, argument, check_names, declared
from airflow_provider_chs3.core.arguments.load_arguments import (
    CANCEL_ON_KILL,
    CLICKHOUSE_CONN_ID,
    CLUSTER,
    DATABASE,
    DEFERRABLE,
    LOAD,
    PERIOD,
    PERIODS,
    TABLE,
)


@dataclass(frozen=True, kw_only=True)
class Thresholds(Group):
    """Limits for part counts and times."""

    spare_parts: int = argument(
        10, "Number of parts that a settled period may have on a node, besides those too large to merge.", least=0
    )
    # The server sleeps for 5 to 60 seconds between two merges.
    settled_after_seconds: float = argument(
        120, "Seconds without a merge or a change of parts after which they have settled.", least=0
    )
    stuck_after_seconds: float = argument(
        600, "Seconds without progress after which many parts, or a mutation, are stuck.", least=0
    )
    stuck_fraction: float = argument(
        0.5,
        "Fraction of `parts_to_delay_insert` (for a period) or `max_parts_in_total` (for the table) above which parts "
        "are many.",
        least=0,
        most=1,
    )
    # As `max_replica_delay_for_distributed_queries`.
    max_replica_delay_seconds: float = argument(300, "Seconds of delay above which a replica lags.", least=0)


@dataclass(frozen=True, kw_only=True)
class Reactions(Group):
    """The user's choice of what to do about each verdict."""

    on_settled_with_too_many_parts: str = argument("continue", "`continue`, or `fail`.", choices=("continue", "fail"))
    on_stuck: str = argument(
        "fail",
        "`fail`, without retries, as a person must act; `wait` until the sensor's timeout, or `continue`.",
        choices=("fail", "wait", "continue"),
    )


CLOSED_FOR_DAYS = Argument(
    name="closed_for_days",
    help="Days after its end, in UTC, at which a period counts as closed, if `periods` is not set.",
    type="float | str",
    default=7,
    least=0,
)
TARGET_PARTS = Argument(
    name="target_parts",
    help="Number of parts on a node above which a period is merged there, into one part.",
    type="int | str",
    default=1,
    least=1,
)
MAX_RUNNING = Argument(
    name="max_running",
    help="Maximum number of this operator's OPTIMIZEs running in the cluster at a time, over all tasks and tables; a "
    "node runs at most one for a task.",
    type="int | str",
    default=2,
    least=1,
)
POLL_INTERVAL_SECONDS = Argument(
    name="poll_interval_seconds",
    help="Seconds between two polls; they grow up to 300 while nothing changes.",
    type="float",
    option="chs3.optimize_poll_interval_seconds",
    without="Airflow's `[chs3] optimize_poll_interval_seconds`, 10",
    above=0,
    is_template=False,
)

#: In the order of the sensor's signature.
OF_SENSOR = (
    LOAD,
    TABLE,
    replace(PERIOD, help="The period, such as `2026-10`; or set `periods`.", without=""),
    replace(
        PERIODS,
        help="Several periods, as a list, which may be empty; or the result of a load, for those that it changed.",
        type="Sequence[str] | None",
    ),
    *(DATABASE, CLUSTER, CLICKHOUSE_CONN_ID),
    *declared(Reactions).values(),
    *(replace(argument, is_template=False) for argument in declared(Thresholds).values()),
    replace(
        DEFERRABLE,
        help="Whether to wait in Airflow's triggerer after the first poke, whatever the `mode`: it polls after 10 "
        "seconds, then every `poke_interval`, and less often, up to every 5 minutes, while nothing changes.",
    ),
)
#: In the order of the signature of the operator that merges.
OF_MERGING = (
    *(LOAD, TABLE, PERIODS, CLOSED_FOR_DAYS, TARGET_PARTS, MAX_RUNNING, POLL_INTERVAL_SECONDS, DATABASE, CLUSTER),
    *(CLICKHOUSE_CONN_ID, CANCEL_ON_KILL, DEFERRABLE),
)


def merge_health(given: Mapping[str, Any] | None) -> tuple[Thresholds, Reactions]:
    """Read the arguments of a load's wait for merges."""
    thresholds, reactions = declared(Thresholds), declared(Reactions)
    check_names("merge_health", given, (*thresholds, *reactions))
    given = given or {}
    return (
        Thresholds(**{name: value for name, value in given.items() if name in thresholds}),
        Reactions(**{name: value for name, value in given.items() if name in reactions}),
    )
