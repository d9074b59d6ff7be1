"""Check a user's privileges on every node, before anything is written.

`CHECK GRANT` exists since 24.11. It takes several privileges at once and answers 1 if all are granted, by roles and
wildcards, too; it does not check whether tables exist.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.store_kind import StoreKind
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Steps
from airflow_provider_chs3.core.target.topology import LOADS_TABLE, OBJECTS_TABLE, TableLocation
from airflow_provider_chs3.exceptions import PreflightError

#: Settings that take privileges away, which no GRANT gives back.
FORBIDDING = "getSetting('readonly'), getSetting('allow_ddl')"
#: Tables of `system` that a load reads, beside those that everybody may read: tables, columns, databases, settings.
_SYSTEM_TABLES = (
    "asynchronous_metrics",
    "data_skipping_indices",
    "detached_parts",
    "disks",
    "macros",
    "merge_tree_settings",
    "mutations",
    "parts",
    "processes",
    "projections",
    "server_settings",
    "storage_policies",
)
#: Tables of `system` that show what a table is made of.
_OF_TARGET = ("data_skipping_indices", "macros", "parts", "projections", "server_settings")
#: Tables of `system` for the page in Airflow's UI, besides those of merge health.
_OF_PAGE = (
    "asynchronous_metrics",
    "macros",
    "part_log",
    "parts",
    "processes",
    "query_log",
    "server_settings",
)
#: Tables of `system` that show the state of merges.
_OF_MERGES = (
    "detached_parts",
    "disks",
    "merge_tree_settings",
    "merges",
    "metrics",
    "mutations",
    "replicas",
    "replicated_merge_tree_settings",
    "replication_queue",
    "storage_policies",
)


@dataclass(frozen=True, slots=True)
class RequiredPrivileges:
    """Privileges, as written in a GRANT."""

    on_servers: tuple[str, ...]
    on_tables: tuple[str, ...] = ()

    @property
    def every(self) -> tuple[str, ...]:
        """All of them."""
        return self.on_servers + self.on_tables

    def __add__(self, other: RequiredPrivileges) -> RequiredPrivileges:
        return RequiredPrivileges(self.on_servers + other.on_servers, self.on_tables + other.on_tables)


def privileges_of_loading(
    location: TableLocation, *, named_collection: str | None, store: StoreKind
) -> RequiredPrivileges:
    """Return the privileges for a load.

    REPLACE PARTITION requires INSERT and ALTER DELETE on the target. Table functions require CREATE TEMPORARY TABLE,
    which CREATE TABLE includes.
    """
    own_tables = _own_tables(location.ledger)
    return RequiredPrivileges(
        (*_of_reading(location, named_collection, store), "TABLE ENGINE ON MergeTree"),
        (
            f"INSERT ON {table(location.target)}",
            f"ALTER DELETE ON {table(location.target)}",
            *(f"{privilege} ON {own_tables}" for privilege in ("SELECT", "INSERT", "CREATE TABLE", "DROP TABLE")),
        ),
    )


def _of_reading(location: TableLocation, named_collection: str | None, store: StoreKind) -> tuple[str, ...]:
    needed = [*_on_system(_SYSTEM_TABLES), store.privilege]
    if named_collection:
        needed.append(f"NAMED COLLECTION ON {identifier(named_collection)}")
    if location.cluster:
        needed += ["SELECT ON system.clusters", "WRITE ON REMOTE"]
    return tuple(needed)


def privileges_of_planning(location: TableLocation) -> RequiredPrivileges:
    """Return the privileges for planning, and for listing the ledger."""
    return RequiredPrivileges(
        (
            "CREATE TEMPORARY TABLE ON *.*",
            *_on_system((*_of_cluster(location), *_OF_TARGET, "detached_parts", "mutations")),
        ),
        (*_sight_of(location), *_of_records(location.ledger)),
    )


def privileges_of_increments(location: TableLocation) -> RequiredPrivileges:
    """Return the privileges for loading new objects alone, in addition to those of a load.

    Merges that attaching would cancel are looked up.
    """
    return RequiredPrivileges(("SELECT ON system.merges",), privileges_of_attaching(location.target, location.ledger))


def privileges_of_attaching(target: TableName, ledger: TableName) -> tuple[str, ...]:
    """Return the further privileges for attaching published rows to staging.

    `ALTER TABLE staging ATTACH PARTITION … FROM target` asks for SELECT on the target, and for what REPLACE PARTITION
    asks on staging.
    """
    return (f"SELECT ON {table(target)}", privilege_of_filling(ledger))


def privilege_of_filling(ledger: TableName) -> str:
    """Return the further privilege for attaching the rows of one staging table to another."""
    return f"ALTER DELETE ON {_own_tables(ledger)}"


def privileges_of_proving(
    location: TableLocation, *, named_collection: str | None, store: StoreKind
) -> RequiredPrivileges:
    """Return the privileges for comparing periods with their objects."""
    reading = (
        privilege for privilege in _of_reading(location, named_collection, store) if privilege != "WRITE ON REMOTE"
    )
    selected = (f"SELECT ON {table(name)}" for name in (location.target, location.ledger))
    return RequiredPrivileges(("CREATE TEMPORARY TABLE ON *.*", *reading), (*_sight_of(location), *selected))


def privileges_of_adopting(location: TableLocation) -> RequiredPrivileges:
    """Return the privileges for adopting periods, in addition to those of a load."""
    return RequiredPrivileges((), (f"SELECT ON {table(location.target)}",))


def privileges_of_merge_health(location: TableLocation) -> RequiredPrivileges:
    """Return the privileges for reading the state of merges."""
    return RequiredPrivileges(_on_system((*_of_cluster(location), *_OF_TARGET, *_OF_MERGES)), _sight_of(location))


def privileges_of_optimizing(location: TableLocation) -> RequiredPrivileges:
    """Return the privileges for merging closed periods, in addition to those for reading the state of merges."""
    on_target = (f"{privilege} ON {table(location.target)}" for privilege in ("OPTIMIZE", "SYSTEM MERGES"))
    return RequiredPrivileges(("SELECT ON system.processes",), tuple(on_target))


def privileges_of_page(location: TableLocation) -> RequiredPrivileges:
    """Return the privileges for the page in Airflow's UI."""
    return RequiredPrivileges(
        _on_system((*_of_cluster(location), *_OF_MERGES, *_OF_PAGE)),
        (*_sight_of(location), *_of_records(location.ledger, OBJECTS_TABLE)),
    )


def _of_cluster(location: TableLocation) -> tuple[str, ...]:
    return ("clusters",) if location.cluster else ()


def _on_system(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"SELECT ON system.{name}" for name in names)


def _sight_of(location: TableLocation) -> tuple[str, ...]:
    return tuple(f"{privilege} ON {table(location.target)}" for privilege in ("SHOW TABLES", "SHOW COLUMNS"))


def privileges_of_detaching(cluster: str | None) -> tuple[str, ...]:
    """Return the further privileges for finding an insert that another process started."""
    return ("SELECT ON system.query_log", *(["READ ON REMOTE"] if cluster else []))


def privileges_of_replication(target: TableName, ledger: TableName, *, is_shared: bool) -> tuple[str, ...]:
    """Return the further privileges for a load into a replicated table."""
    return (
        "SELECT ON system.replicas",
        *(() if is_shared else ("SELECT ON system.zookeeper",)),
        "TABLE ENGINE ON ReplicatedMergeTree",
        *(f"SYSTEM SYNC REPLICA ON {name}" for name in (table(target), _own_tables(ledger))),
    )


def _of_records(ledger: TableName, *further: str) -> tuple[str, ...]:
    others = (TableName(ledger.database, name) for name in (LOADS_TABLE, *further))
    return tuple(f"SELECT ON {table(name)}" for name in (ledger, *others))


def _own_tables(ledger: TableName) -> str:
    """Return the wildcard for the ledger and all staging tables, which privileges support since 24.10."""
    return f"{identifier(ledger.database)}.chs3_*"


def check_privileges(nodes: Sequence[Node], needed: Sequence[str]) -> Steps[None]:
    """Ask every node, with one statement, whether the user has all privileges."""
    answers = yield from _check(nodes, ", ".join(needed))
    lacking = [node for node, rows in answers.items() if not rows[0][0]]
    if not lacking:
        return
    missing: dict[Node, list[str]] = {node: [] for node in lacking}
    for privilege in needed:
        answers = yield from _check(lacking, privilege)
        for node, rows in answers.items():
            if not rows[0][0]:
                missing[node].append(privilege)
    who = Sql(f"SELECT currentUser(), {FORBIDDING}")
    users = yield from QueryNodes(name="Ask for the user", sql=dict.fromkeys(lacking, who))
    raise PreflightError(*(_lacks(node, privileges, *users[node][0]) for node, privileges in missing.items()))


def why_not_granted(nodes: Sequence[Node], needed: Sequence[str]) -> Steps[str]:
    """Return which of the privileges that a load can do without are missing, with the GRANT; empty if none are."""
    try:
        yield from check_privileges(nodes, needed)
    except PreflightError as error:
        return " ".join(error.findings).removesuffix(".")
    return ""


def _lacks(node: Node, privileges: Sequence[str], user: str, readonly: int, allow_ddl: bool) -> str:
    if forbids := forbidden_by(readonly, allow_ddl):
        return f"User {user!r} may not load on {node}: {forbids}"
    return f"User {user!r} lacks privileges on {node}: {way_to_grant(privileges, user)}"


def way_to_grant(privileges: Iterable[str], user: str) -> str:
    """Return how to give a user the privileges that it lacks on a node."""
    return f"run GRANT {', '.join(privileges)} TO {identifier(user)} there."


def forbidden_by(readonly: int, allow_ddl: bool) -> str:
    """Return the setting that takes privileges away from the user, and the remedy; empty if there is none."""
    forbids = f"readonly = {readonly}" if readonly else "" if allow_ddl else "allow_ddl = 0"
    return forbids and (
        f"the user's profile or the connection's settings have {forbids}, which no GRANT overrides. Remove it there, "
        "or load as another user."
    )


def _check(nodes: Sequence[Node], privileges: str) -> QueryNodes:
    return QueryNodes(name="Ask for privileges", sql=dict.fromkeys(nodes, Sql(f"CHECK GRANT {privileges}")))


#: Tables of `system` that a period is judged by, where a hidden row would not just be an error,
OF_A_PERIOD = ("columns", "mutations", "parts", "tables")
#: and all that a load decides by.
OF_A_LOAD = (*OF_A_PERIOD, "detached_parts", "processes", "settings")

#: Where a policy applies. Only administrators may list policies, but the plan of a query shows it.
_IS_POLICY = "explain ILIKE '%row-level%'"
#: The filter of a MergeTree table, which a policy applies as it is read (25.8 as PREWHERE).
_FILTERS_ROWS = "match(explain, '^ *(Row level filter|Prewhere info)')"


def policies_query(names: Collection[str]) -> str:
    """Return an expression of the number of tables that a policy filters for the user.

    The plan of all tables at once takes servers half the time of one for each.
    """
    if not names:
        return "0"
    tables = " UNION ALL ".join(f"SELECT 1 FROM system.{name}" for name in names)
    return f"(SELECT countIf({_IS_POLICY}) FROM (EXPLAIN SELECT 1 FROM ({tables})))"


def find_filtered(nodes: Collection[Node], names: Collection[str]) -> Steps[dict[Node, tuple[str, ...]]]:
    """Find the tables of `system` that a policy filters for the user on each node.

    A policy may hide a column, which would stay empty, or parts, which would be replaced as if they were not there.
    """
    filters = (
        f"if((SELECT countIf({_IS_POLICY}) FROM (EXPLAIN SELECT 1 FROM system.{name})) > 0, {literal(name)}, '')"
        for name in names
    )
    sql = Sql(f"SELECT arrayFilter(name -> notEmpty(name), [{', '.join(filters)}])")
    answers = yield from QueryNodes(name="Find what row policies filter", sql=dict.fromkeys(nodes, sql))
    return {node: tuple(rows[0][0]) for node, rows in answers.items()}


def check_all_seen(nodes: Collection[Node], target: TableName) -> Steps[None]:
    """Check that the user sees all rows of a table."""
    sql = Sql(f"SELECT countIf({_FILTERS_ROWS}) FROM (EXPLAIN actions = 1 SELECT 1 FROM {table(target)})")
    answers = yield from QueryNodes(name=f"Find what row policies filter of {target}", sql=dict.fromkeys(nodes, sql))
    if filtered := ", ".join(str(node) for node, rows in answers.items() if rows[0][0]):
        raise PreflightError(
            f"A row policy filters {target} for the connection's user on {filtered}: rows that the user does not see "
            "would count as missing. Exempt the user from the policy (ALTER ROW POLICY … TO ALL EXCEPT …), or connect "
            "as another user."
        )
