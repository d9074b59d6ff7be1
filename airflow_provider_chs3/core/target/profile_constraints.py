"""Find settings that every load needs and a profile forbids, before anything is written.

A server refuses such a setting with 452, unless it equals the profile's own value. A node that another node queries is
worse: it silently uses what its profile allows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from airflow_provider_chs3.core.model.error_codes import ACCESS_DENIED, is_of_servers
from airflow_provider_chs3.core.model.models import Node, SettingValues
from airflow_provider_chs3.core.sql.complete_answers import (
    COMPLETE,
    NEWER,
    NOT_TO_BE_UNSET,
    OF_THOSE_UP,
    is_about_reading,
    passed_on,
)
from airflow_provider_chs3.core.sql.quoting import Sql, literal, one_of, settings_clause
from airflow_provider_chs3.core.steps.operations import Log, Query, QueryNodes, Row, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.privileges import FORBIDDING, forbidden_by
from airflow_provider_chs3.core.target.topology import ONLY_NODE, too_old
from airflow_provider_chs3.exceptions import ClickHouseServerError, PreflightError

# Not in a sub-query: there a server shows limits as it has them for sub-queries. No array may be NULL (43, on 25.8).
_QUERY = f"""SELECT version(), currentProfiles(), {FORBIDDING},
    groupArray((name, value, default, min, max, readonly, disallowed_values))
FROM system.settings
WHERE NOT is_obsolete AND (readonly OR isNotNull(min) OR isNotNull(max) OR notEmpty(disallowed_values))
    OR name = {literal(NOT_TO_BE_UNSET)} AND changed
GROUP BY ALL
SETTINGS aggregate_functions_null_for_empty = 0, use_query_cache = 0, additional_result_filter = ''"""

_PROFILES = "SELECT currentProfiles() SETTINGS additional_result_filter = ''"

_REFUSED = re.compile(r"Setting (\w+) [^.]*")

#: Settings that the node that is asked first applies itself, and never passes on.
_TAKEN_OUT = ("additional_result_filter", "limit", "offset", *sorted(NEWER))

#: Codes of the errors of `_ask_what_reached` if such a setting changes its columns, or names others.
_REWRITTEN = (10, 47)

#: The value of `readonly` with which no setting can be changed.
_CHANGES_NOTHING = 1

#: Host, port, UUID and profiles of a node → name of a setting → its value there.
_ByNode: TypeAlias = dict[tuple[str, int, str, tuple[str, ...]], dict[str, str]]

_WORDS = {"true": "1", "false": "0"}


@dataclass(frozen=True, slots=True)
class Constraint:
    """The values that a profile allows for a setting."""

    name: str
    value: str
    default: str
    least: str | None
    most: str | None
    is_fixed: bool
    disallowed: tuple[str, ...]

    def refusal(self, wanted: str) -> str:
        """Return how it forbids a value, as a text; empty if it does not."""
        if wanted == self.value:
            return ""
        if self.is_fixed:
            return f"fixes {self.name} at {self.value!r}"
        if wanted in self.disallowed:
            return f"disallows {self.name} = {wanted!r}"
        if _is_less(wanted, self.least):
            return f"has {self.name} no lower than {self.least}"
        if _is_less(self.most, wanted):
            return f"has {self.name} no higher than {self.most}"
        return ""


def check_constraints(nodes: Iterable[Node], needed: SettingValues, *, user_settings: SettingValues) -> Steps[None]:
    """Check the version of each node, and what the user's profile allows there."""
    rows = yield from _ask(nodes)
    old = list(too_old({node: version for node, (version, *_) in rows.items()}))
    if findings := old or _findings_of(rows, needed, user_settings):
        raise PreflightError(*findings)


def find_constraints(nodes: Iterable[Node], needed: SettingValues, *, user_settings: SettingValues) -> Steps[list[str]]:
    """Return a sentence for each node and setting that a profile forbids there; arguments as in `check_constraints`."""
    return _findings_of((yield from _ask(nodes)), needed, user_settings)


def _ask(nodes: Iterable[Node]) -> Steps[dict[Node, Row]]:
    answers = yield from QueryNodes(
        name="Ask what the user's profile allows", sql=dict.fromkeys(nodes, Sql(_QUERY)), is_under_profile=True
    )
    # An offset in the profile leaves no row: then the next statement says what is wrong.
    return {node: rows[0] for node, rows in answers.items() if rows}


def _findings_of(rows: Mapping[Node, Row], needed: SettingValues, user_settings: SettingValues) -> list[str]:
    return [sentence for node, row in rows.items() for sentence in _findings(node, row, needed, user_settings)]


def explain_refusal(
    error: ClickHouseServerError, needed: SettingValues, *, user_settings: SettingValues
) -> Steps[None]:
    """Explain the first statements' refusal for a constraint: which profile has it, and what loads need."""
    # A statement with a limit of its profile does not see it: the error itself says it best.
    matched = _REFUSED.search(error.message)
    rows = (
        yield from QueryNodes(name="Ask for the user's profile", sql={ONLY_NODE: Sql(_PROFILES)}, is_under_profile=True)
    )[ONLY_NODE]
    name = matched[1] if matched else ""
    if not rows or name in user_settings or name not in needed:
        return
    raise PreflightError(
        f"{error.host}: {_named(rows[0][0])} forbids what every load needs, {name} = {str(needed[name])!r} "
        f"({matched[0] if matched else ''}): change that constraint, or run loads as a user without it."
    )


def _findings(node: Node, row: Row, needed: SettingValues, user_settings: SettingValues) -> Iterator[str]:
    _, profiles, readonly, allow_ddl, constraints = row
    if readonly == _CHANGES_NOTHING:
        # It fixes every setting.
        yield f"The connection's user may not load on {node}: {forbidden_by(readonly, allow_ddl)}"
        return
    for constraint in (Constraint(*values) for values in constraints or ()):
        if constraint.name == NOT_TO_BE_UNSET and constraint.value:
            yield (
                f"Node {node}: {constraint.name} is {constraint.value!r} for the connection's user, so the server "
                "refuses each statement on a table without that index, such as the ledger. Remove it from "
                f"{_named(profiles)}, or from the connection's settings."
            )
            continue
        default = constraint.default if is_about_reading(constraint.name) else None
        wanted = user_settings.get(constraint.name, needed.get(constraint.name, default))
        if wanted is None:
            continue
        text = _WORDS.get(str(wanted).lower(), str(wanted))
        refusal = constraint.refusal(text)
        if refusal and constraint.name in user_settings:
            yield (
                f"Node {node}: {_named(profiles)} {refusal}, but settings set {text!r}: leave it out of "
                "settings, or change that constraint of the profile."
            )
        elif refusal:
            yield (
                f"Node {node}: {_named(profiles)} {refusal}, but every load needs {text!r}: change that "
                "constraint of the profile, or run loads as a user without it."
            )


def check_taken(user_settings: SettingValues) -> Steps[None]:
    """Check that a server accepts the operator's settings: later, an unparsable value looks like one of the files."""
    for name, value in user_settings.items():
        try:
            yield from Query(name=f"Try settings={{{name!r}: …}}", sql=Sql(f"SELECT 1{settings_clause({name: value})}"))
        except ClickHouseServerError as error:
            if is_of_servers(error):
                raise
            finding = f"settings: {error.host} does not accept {name} = {value!r} ({error.message}): set another value."
            raise PreflightError(finding) from error


def check_passed_on(context: Target, sent: SettingValues) -> Steps[None]:
    """Check that the profile of the user that nodes use for each other changes no setting of a statement."""
    if not context.cluster:
        return
    known = COMPLETE.keys() | context.known_settings.keys() | context.reading_defaults.keys()
    sent = {name: value for name, value in sent.items() if name in known}
    if context.absent:
        sent |= OF_THOSE_UP
    try:
        by_node = yield from _ask_what_reached(context.cluster, sent, _TAKEN_OUT)
        reached = set.intersection(*map(set, by_node.values())) if by_node else set()
        if missing := sent.keys() - set(_TAKEN_OUT) - reached:
            by_node = yield from _ask_what_reached(context.cluster, sent, (*_TAKEN_OUT, *sorted(missing)))
    except ClickHouseServerError as error:
        if error.code in _REWRITTEN:
            finding = (
                f"{error.host}: the user that other nodes use to query it has a profile that rewrites answers "
                f"({error.message}): remove select, filter, sort, order, page and additional_result_filter from it."
            )
            raise PreflightError(finding) from error
        if error.code != ACCESS_DENIED:
            raise
        # Which loads can do without.
        yield from Log(name="Without READ ON REMOTE, it is unknown whether the settings of this load reach all nodes.")
        return
    if findings := list(_not_passed_on(by_node, sent, nodes=len(context.nodes))):
        raise PreflightError(*findings)


def _ask_what_reached(cluster: str, sent: SettingValues, names: Collection[str]) -> Steps[_ByNode]:
    """Ask all nodes for the settings that are changed there, as all that reach them are, and for others by name.

    Names in the statement cost much: three hundred of them took each node as long as all the rest.
    """
    # Not the table by its name: who asks another node for that needs a right to its columns.
    reached = (
        "SELECT hostName() AS host, tcpPort() AS port, toString(serverUUID()) AS server, "
        "currentProfiles() AS profiles, name, value "
        f"FROM system.settings WHERE changed OR {one_of('name', names)}"
    )
    text = (
        f"SELECT host, port, server, profiles, name, value FROM clusterAllReplicas({literal(cluster)}, view({reached}))"
    )
    rows = yield from Query(name="Ask which settings reach all nodes", sql=passed_on(Sql(text), sent))
    by_node: _ByNode = {}
    for host, port, server, profiles, name, value in rows:
        if name in sent:
            by_node.setdefault((host, port, server, tuple(profiles)), {})[name] = value
    return by_node


def _not_passed_on(by_node: _ByNode, sent: SettingValues, *, nodes: int) -> Iterator[str]:
    for (host, port, _, profiles), values in by_node.items():
        other = {name: value for name, value in values.items() if not _is_same(str(sent[name]), value)}
        if other:
            wanted = ", ".join(f"{name} = {str(sent[name])!r} (it is {value!r} there)" for name, value in other.items())
            yield (
                f"Node {host}:{port}: {_named(profiles)} of the user that other nodes use to query it forbids "
                f"{wanted}: change that constraint of the profile, or set a secret for the cluster."
            )
    if len(by_node) < nodes or any(len(values) < len(sent) for values in by_node.values()):
        yield (
            "Answers of other nodes are cut off by the profile of the user that nodes use to query each other, and no "
            "statement can change that: remove limit and offset from the profile."
        )


def _is_same(value: str, other: str) -> bool:
    is_number = _is_less(value, other) is _is_less(other, value) is False
    return value == other or _WORDS.get(value.lower(), value) == other or is_number


def _named(profiles: Collection[str]) -> str:
    names = ", ".join(map(repr, profiles))
    return f"profile {names}" if len(profiles) == 1 else f"one of the profiles {names}"


def _is_less(value: str | None, other: str | None) -> bool | None:
    try:
        return float(value or "") < float(other or "")
    except ValueError:
        # No numbers: only what is fixed or disallowed matters.
        return None
