"""Load periods again although nothing changed, as requested in the conf of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from airflow_provider_chs3.core.arguments.declaration import Group, argument, declared
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period, parse_periods
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.topology import local_table
from airflow_provider_chs3.exceptions import ConfigurationError

#: The key in a run's conf.
RELOAD = "chs3_reload"

#: The reason for loading an unchanged period.
ASKED_FOR = "it is as published, but a reload was requested"

#: Keys with this prefix are meant for this package, as are mappings under a name similar to `RELOAD`.
_OURS = "chs3"
_NEARLY = 0.8


@dataclass(frozen=True, kw_only=True, slots=True)
class Reload(Group):
    """The periods that a run reloads, or approves; it skips all other periods and tables."""

    target: TableName
    periods: tuple[Period, ...]
    replace_rows_of_others: bool = argument(
        False, "Also replace rows that somebody else inserted or changed; rows erased on request come back."
    )
    allow_shrink: bool = argument(
        False,
        "Also load objects that shrank by more than max_shrink_fraction since they were published: their rows go.",
    )
    approve: bool = argument(False, "Publish the rows that are held, instead of loading the periods.")

    def __str__(self) -> str:
        return f"{self.target} {', '.join(map(str, self.periods))}"

    @property
    def period(self) -> Period:
        """The only period, for loads without a period argument.

        Raises:
            ConfigurationError: If there are several.
        """
        if len(self.periods) > 1:
            raise ConfigurationError(
                f"This run reloads {self}, but this load takes one period: name one period in {RELOAD}, or map "
                "the load over the output of PlanLoadsOperator."
            )
        return self.periods[0]

    def leaves_out(self, target: TableName, cluster: str | None, period: Period) -> Steps[bool]:
        """Check whether a load is for something else.

        Raises:
            PreflightError: If its table is Distributed over a cluster other than the one given.
        """
        return period not in self.periods or (yield from self.leaves_out_table(target, cluster))

    def leaves_out_table(self, target: TableName, cluster: str | None) -> Steps[bool]:
        """Check whether a table is a different one.

        Raises:
            PreflightError: If the table is Distributed over a cluster other than the one given.
        """
        if target == self.target:
            return False
        local, _, _ = yield from local_table(target, cluster)
        return local != self.target


#: What a person may allow, or ask for, in one run.
RELOAD_OPTIONS = declared(Reload)
_TAKES = f"database, table, periods and, if wanted, {', '.join(RELOAD_OPTIONS)}"


def reload_of(conf: Mapping[str, Any] | None) -> Reload | None:
    """Parse the reload in the conf of a run: `{"chs3_reload": {"database": …, "table": …, "periods": […]}}`.

    Returns:
        The reload; None if the conf requests none.

    Raises:
        ConfigurationError: If the request is incomplete or malformed, or the conf has an unknown key of this package.
    """
    if unknown := [key for key, value in (conf or {}).items() if key != RELOAD and _looks_like_ours(key, value)]:
        raise ConfigurationError(
            f"The run's conf has {unknown[0]!r}, which has no meaning, so the run would load what it always loads: "
            f"the only key is {RELOAD}, which takes {_TAKES}."
        )
    asked = (conf or {}).get(RELOAD)
    if asked is None:
        return None
    given = dict(asked) if isinstance(asked, Mapping) else {}
    database, table, periods = (given.pop(name, None) for name in ("database", "table", "periods"))
    allowed = {name: given.pop(name, False) for name in RELOAD_OPTIONS}
    names = (database, table, *(periods if isinstance(periods, list) else [periods]))
    is_named = bool(periods) and all(isinstance(name, str) and name for name in names)
    if given or not is_named or not all(isinstance(value, bool) for value in allowed.values()):
        raise ConfigurationError(
            f"The run's conf has {RELOAD}={asked!r}, which takes {_TAKES}, such as "
            f'{{"{RELOAD}": {{"database": "taxi", "table": "trips", "periods": ["2026-01"]}}}}.'
        )
    target = TableName(database, table)
    return Reload(target=target, periods=parse_periods(periods), **allowed)


def _looks_like_ours(key: str, value: Any) -> bool:
    letters, known = (re.sub("[^a-z0-9]", "", name.lower()) for name in (str(key), RELOAD))
    is_nearly = isinstance(value, Mapping) and SequenceMatcher(None, letters, known).ratio() > _NEARLY
    return letters.startswith(_OURS) or is_nearly
