"""Check that expressions are row-wise: every node reads its own files, so an aggregate would be one of each node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from airflow_provider_chs3.core.files.field_values import FieldValues
from airflow_provider_chs3.core.files.loaded_columns import VIRTUAL_COLUMNS, LoadedColumn, is_missing, structure_of
from airflow_provider_chs3.core.files.parse_errors import reason_of
from airflow_provider_chs3.core.model.models import SettingValues
from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.quoting import Sql, literal
from airflow_provider_chs3.core.sql.select_conversions import strict
from airflow_provider_chs3.core.sql.server_casts import Cast
from airflow_provider_chs3.core.steps.operations import Query, Steps
from airflow_provider_chs3.core.target.table_facts import Column
from airflow_provider_chs3.exceptions import ClickHouseServerError, ConfigurationError, SourceError

#: Lines of EXPLAIN AST for `SELECT <one expression>` before the expression itself.
_ONE_EXPRESSION = [
    "SelectWithUnionQuery (children 1)",
    " ExpressionList (children 1)",
    "  SelectQuery (children 1)",
    "   ExpressionList (children 1)",
]
#: How a line of the parsed expression may not begin.
_REFUSED_NODES = {
    r"Subquery\b": "a sub-query",
    r"WindowDefinition\b": "a window function",
    r"(Qualified)?Asterisk\b": "an asterisk",
    r"Columns[A-Za-z]*Matcher\b": "a column matcher",
}
#: Which functions it may not call.
_REFUSED_FUNCTIONS = {
    r"arrayJoin|(?i:unnest)": "arrayJoin",
    r"untuple": "untuple",
    # They count or compare the rows of a block, which are those of one node in the order of its reading.
    r"(?i:rowNumberInBlock|rowNumberInAllBlocks|blockNumber|blockSize|neighbor|lagInFrame|leadInFrame)": (
        "a function of neighbouring rows"
    ),
    r"(?i:runningDifference\w*|runningAccumulate|runningConcurrency)": "a function of neighbouring rows",
}
#: Functions whose value depends on more than the row: a dictionary, a table, a file of the server.
_LOOKUPS = re.compile(r"dict[A-Z]\w*|joinGet\w*|region[A-Z]\w*|catboostEvaluate|file")
_FUNCTION_OF_AST = re.compile(r"Function (.+?)(?: \(alias .+\))?(?: \(children \d+\))?$")
_IDENTIFIER = "Identifier "
_FUNCTION_OF_TREE = re.compile(r"FUNCTION id: \d+, function_name: (.+), function_type: ")
_ALIAS = re.compile(r" \(alias .+\)$")
#: How a server names what an expression reads and nothing has.
_UNKNOWN = re.compile(r"Unknown expression (?:or function )?identifier [`'](.+?)[`'][. ]")
#: How a server refuses a function that makes a container of what may be NULL.
_OF_NULLABLE = re.compile(r"Nested type (\w+).* cannot be inside Nullable type")
#: Lines that only the plan shows.
_REFUSED_IN_PLAN = {
    '"Aggregating"': "an aggregate function",
    '"Window"': "a window function",
    '"CreatingSets"': "a table after IN",
}


def check_row_wise(
    select: Mapping[str, str],
    columns: Sequence[Column],
    types: Mapping[str, str],
    *,
    settings: SettingValues,
    by_file: Mapping[str, Iterable[str]] | None = None,
    fields: FieldValues | None = None,
) -> Steps[list[LoadedColumn]]:
    """Check the user's expressions with the server's own parser, and find their types."""
    functions, written = dict[str, list[str]](), dict[str, Cast]()
    for column in columns:
        name, expression = column.name, select[column.name]
        functions[name], used = yield from _names_in(name, expression)
        written[name] = fields(column, expression, used) if fields else Cast(expression)
    # Under names of their own: under the target's, an expression would see another one in the place of a file's column.
    made = {name: f"(\n{strict(cast.value)}\n)" for name, cast in written.items()}
    listed = ",\n".join(f"{text} AS `select {number}`" for number, text in enumerate(made.values()))
    structure = structure_of({**VIRTUAL_COLUMNS, **types})
    query = f"SELECT {listed} FROM null({literal(structure)})"
    try:
        plan = yield from Query(
            name="Ask for the plan of select", sql=Sql(f"EXPLAIN PLAN json = 1 {query}"), settings=settings
        )
        described = yield from Query(
            name="Ask for the types of select", sql=Sql(f"DESCRIBE ({query})"), settings=settings
        )
    except ClickHouseServerError as error:
        raise _rejected(error, types, by_file or {}) from error
    for node, what in _REFUSED_IN_PLAN.items():
        if node in plan[0][0]:
            raise ConfigurationError(_refusal("select", what))
    user_functions = yield from _functions_of_users(set().union(*functions.values()), query)
    return [
        LoadedColumn(
            column,
            made[column.name],
            row[1],
            kept=written[column.name].holds or "",
            written=written[column.name].value,
            depends_on=next(
                (call for call in functions[column.name] if call in user_functions or _LOOKUPS.fullmatch(call)), ""
            ),
        )
        for column, row in zip(columns, described, strict=True)
    ]


def names_in(select: Mapping[str, str]) -> Steps[list[str]]:
    """Return the columns that expressions may read: the identifiers in them, and what these may be parts of."""
    names: dict[str, None] = {}
    for name, expression in select.items():
        _, used = yield from _names_in(name, expression)
        names |= dict.fromkeys(part for field in used for part in (field, field.partition(".")[0]))
    return [name for name in names if name not in VIRTUAL_COLUMNS]


def are_texts(types: Mapping[str, str]) -> bool:
    """Check whether the fields of files are text in `select`, as those of CSV are."""
    return all(ColumnType(of).bare.name == "String" for of in types.values())


def _rejected(
    error: ClickHouseServerError, types: Mapping[str, str], by_file: Mapping[str, Iterable[str]]
) -> SourceError | ConfigurationError:
    if unknown := _UNKNOWN.search(error.message):
        # A file may have the `a` of `a.b`.
        place = unknown[1].partition(".")[0]
        others = {path: names for path, names in by_file.items() if place not in names}
        if missing := is_missing(unknown[1], others):
            return SourceError(missing)
    known = ", ".join(types)
    if of_nullable := _OF_NULLABLE.search(error.message):
        return ConfigurationError(
            f"The server rejects select: a function makes values of type {of_nullable[1]} of a field that may be NULL, "
            "and such values cannot be NULL. Pass assumeNotNull(field) to the function: it is an empty text for NULL. "
            f"All files of the period have {known}."
        )
    texts = " All of these are text in select: convert them, as in toInt64(…)." * are_texts(types)
    return ConfigurationError(
        f"The server rejects select: {reason_of(error)}. All files of the period have {known}.{texts}"
    )


def _functions_of_users(functions: Iterable[str], query: str) -> Steps[set[str]]:
    """Return which of the functions users have created, and check what these are made of."""
    if not functions:
        return set()
    listed = ", ".join(map(literal, sorted(functions)))
    rows = yield from Query(
        name="Look for functions of users in select",
        sql=Sql(f"SELECT name FROM system.functions WHERE origin != 'System' AND name IN ({listed})"),
    )
    if rows:
        # The tree has their bodies in their place.
        tree = yield from Query(name="Ask for the tree of select", sql=Sql(f"EXPLAIN QUERY TREE passes = 1 {query}"))
        for (line,) in tree:
            if "is_subquery: 1" in line:
                raise ConfigurationError(_refusal("A function in select", "a sub-query"))
            if called := _FUNCTION_OF_TREE.match(line.strip()):
                _check_function("A function in select", called[1])
    return {name for (name,) in rows}


def _names_in(name: str, expression: str) -> Steps[tuple[list[str], list[str]]]:
    """Return the functions that one expression calls, and the identifiers in it, once it is checked."""
    where = f"select[{name!r}]"
    try:
        rows = yield from Query(name=f"Parse select for {name}", sql=Sql(f"EXPLAIN AST SELECT {expression}"))
    except ClickHouseServerError as error:
        raise ConfigurationError(f"{where}={expression!r} is not an expression: {error.message}") from error
    lines = [line for (line,) in rows]
    if lines[: len(_ONE_EXPRESSION)] != _ONE_EXPRESSION:
        raise ConfigurationError(f"{where}={expression!r} is more than one expression: set one.")
    functions, identifiers = [], []
    for line in map(str.strip, lines):
        for node, what in _REFUSED_NODES.items():
            if re.match(node, line):
                raise ConfigurationError(_refusal(where, what))
        if called := _FUNCTION_OF_AST.match(line):
            _check_function(where, called[1])
            functions.append(called[1])
        if line.startswith(_IDENTIFIER):
            identifiers.append(line.removeprefix(_IDENTIFIER))
        if _ALIAS.search(line):
            raise ConfigurationError(
                f"{where}={expression!r} contains an alias (AS …), which the other expressions would see: remove it."
            )
    return functions, identifiers


def _check_function(where: str, function: str) -> None:
    for names, what in _REFUSED_FUNCTIONS.items():
        if re.fullmatch(names, function):
            raise ConfigurationError(_refusal(where, what))


def _refusal(where: str, what: str) -> str:
    return (
        f"{where} holds {what}: every node loads its own files row by row, and sees no others. Use row-wise "
        "expressions, and aggregate in the table or downstream."
    )
