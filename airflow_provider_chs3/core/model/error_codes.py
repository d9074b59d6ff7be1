"""The meaning of a server's error: whether a retry can help, and what to do."""

from __future__ import annotations

import re

from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError, TerminalError

#: Codes that a load reacts to, besides explaining them.
BAD_ARGUMENTS = 36
INCOMPATIBLE_COLUMNS = 122
UNKNOWN_FUNCTION = 46
UNKNOWN_IDENTIFIER = 47
UNKNOWN_TABLE = 60
UNKNOWN_DATABASE = 81
TOO_MANY_QUERIES = 202
MEMORY_LIMIT_EXCEEDED = 241
TOO_MANY_PARTS = 252
QUERY_WAS_CANCELLED = 394
SETTING_CONSTRAINT = 452
ACCESS_DENIED = 497
S3_ERROR = 499
CANNOT_OPEN_FILE = 76
HDFS_ERROR = 660
POCO_EXCEPTION = 1000
#: ClickHouse's code for errors of libraries, such as that of Azure.
STD_EXCEPTION = 1001
OBJECT_CHANGED = 1009

#: An expired session token is a 400, without details where ClickHouse asks with HEAD.
_S3_REFUSED = re.compile(
    r"response code: 403|AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|Forbidden"
    r"|No response body\.* HTTP response code: 400"
)
_S3_GONE = re.compile(r"response code: 404|NoSuchKey|NoSuchBucket|key does not exist", re.IGNORECASE)
_ARCHIVED = re.compile(r"not valid for the object's (?:storage class|access tier)|not permitted on an archived blob")
_AZURE = re.compile(r"Azure::(?:\w+::)*\w*Exception")
_AZURE_REFUSED = re.compile(r"Azure::Storage::StorageException: 40[13]|Azure::(?:\w+::)*AuthenticationException")
_AZURE_GONE = re.compile(r"Azure::Storage::StorageException: (?:404 The specified blob|412)")
_HDFS_REFUSED = re.compile(r"Permission denied|AccessControlException|AuthorizationException")
_HDFS_UNREACHABLE = "Unable to connect to HDFS"
_HDFS_GONE = re.compile(r"FileNotFoundException|does not exist")
_NO_CONTAINER = "The specified container does not exist"
#: An error that wraps the one of the HTTP library, as 636 does for a truncated footer.
_BROKEN_OFF = re.compile(rf"Poco::Exception\. Code: {POCO_EXCEPTION}\b|\(CANNOT_READ_FROM_ISTREAM\)")

_OF_VALUES = (6, 26, 27, 41, 69, 70, 130, 131, 321, 349, 376, 407, 467, 675, 691)
#: A retry would meet these again. Codes grouped by cause, with what to do.
_TERMINAL: dict[tuple[int, ...], str] = {
    _OF_VALUES: "A value in the files does not fit its column: fix the file, widen the column, or convert in `select`.",
    (117, 271): "A file is damaged, or holds a value that cannot be read: write it again.",
    (8,): "A file lacks a column: name the columns in `columns`, or set the missing one in `select`.",
    (16, 47): "Unknown column or name: compare `columns` and `select` with the table and the files.",
    (BAD_ARGUMENTS, 44, 48, 49, 53, 62, 193, 215, 344, 386): (
        "ClickHouse rejects this statement, mostly because of an expression in `select`, where fields of CSV, TSV and "
        "JSON are text, or a setting of the connection or profile."
    ),
    (UNKNOWN_TABLE, UNKNOWN_DATABASE): (
        "A table or database is missing on that node: create it on every node of the cluster, or attach it again."
    ),
    (50,): "The format cannot hold that type: change the column's type. A load can leave it out, with columns=[…].",
    (107, 636): "Files are missing or cannot be read: check the bucket, the key and the format.",
    (115,): "That node does not know the setting: leave it out, or upgrade the node.",
    (456, 457): "A parameter of the statement is missing, or is not of its placeholder's type.",
    (INCOMPATIBLE_COLUMNS,): "Tables differ in structure: make its columns the same on every node.",
    (164,): (
        "The user may only read: remove `readonly` from its profile and from the connection's settings (for plans and "
        "the page, readonly = 2 is enough), or use another user."
    ),
    (192, ACCESS_DENIED): "The user is unknown, or lacks a privilege: see docs/privileges.md.",
    (516,): (
        "The login or the password is wrong: correct those of the connection or, if another node was refused, "
        "those in the cluster's definition."
    ),
    (359,): "The partition is larger than the server lets a statement drop: raise max_partition_size_to_drop.",
    (QUERY_WAS_CANCELLED,): "Somebody ended the query. Clear the task to run it again.",
    (SETTING_CONSTRAINT,): (
        "The user's profile forbids that value: change this constraint of the profile, or use a user without it."
    ),
    (158, 161, 162, 165, 167, 168, 290, 306, 307, 396, 718): (
        "The user's profile, or the connection's settings, set a limit that is too low for this load: raise the "
        "limit that the message names, or run loads as a user of their own."
    ),
    (277,): "The user's profile demands an index for each statement: run loads as a user of their own.",
    (724,): "The server accepts no more tables, and a load needs one for staging: raise max_table_num_to_throw.",
    (190,): "The arrays of a Nested column differ in length in a row: fix the file.",
    (469,): "A row breaks a constraint of the table: fix the file, or leave the row out in `select`.",
    (669,): "There is no such named collection on that node: create it on every node, or set keys.",
}

#: Errors that may be temporary.
_TRANSIENT: dict[tuple[int, ...], str] = {
    (MEMORY_LIMIT_EXCEEDED,): (
        "Allow loads more memory (memory_share, node_specs, the limits of the server and of the user's profile), or "
        "load fewer periods at once."
    ),
    (TOO_MANY_PARTS,): "Wait for merges; see why they lag: docs/merge-health.md.",
    (159, 160): "It took too long: raise the limit that the message names, or load less at once.",
    (341,): (
        "The server did not end a statement in time. In a Replicated database, it may be stuck at an earlier one: its "
        "log says why (DDLWorker), and docs/replicas.md what to do."
    ),
    (3, 32, 209, 210, 236, 279, 319): (
        "A node went away, or its merges were stopped: check that it is up; the retry first ends the queries that "
        "are left."
    ),
    (33, 354, 554, 561): (
        "A file was cut off or damaged when it was read: the retry reads all objects of the period again."
    ),
    (TOO_MANY_QUERIES, 203): "The server is busy: run fewer queries at once, or load later.",
    (201,): "The user's quota is used up: raise it, or delay the retry until its interval is over.",
    (700,): "The user may not have so many sessions at once: raise max_sessions_for_user.",
    (216,): "A query with this id still runs there: the retry ends it first.",
    (225, 242, 999): (
        "Replication waits for Keeper: look at system.replicas. A replica that was dropped there, or that Keeper has "
        "lost, stays read-only until SYSTEM RESTORE REPLICA."
    ),
    (285, 286): (
        "The profile's insert_quorum requires more replicas than are available: start them, or set "
        "settings={'insert_quorum': 0}, as a load waits for the replicas that are up before it publishes."
    ),
    (STD_EXCEPTION,): "A library of the server failed, such as that of a storage or a format: the message says which.",
    (614,): "The servers cannot log in to the database: check its address as seen from them, and the login.",
    (243,): "A disk is full: free space on that node, or move the table.",
    (OBJECT_CHANGED,): "An object changed while it was read: let its writer finish first (min_object_age_seconds).",
}

#: Text in the error of a limit, which has the code of any other error of syntax.
_MAX_QUERY_SIZE, _TOO_DEEP = "Max query size exceeded", 167

#: A privilege that a user lacks, as servers name it; for their own tables with some columns, or as SHOW COLUMNS.
_LACKS = re.compile(r"(?P<user>\S+): Not enough privileges\..* the grant (?P<grant>.+?)\.?$", re.DOTALL)
_OF_SYSTEM = re.compile(r"(?:SELECT|SHOW COLUMNS)(?:\([^()]*\))? ON (?=system\.)")

#: How servers of 25.8 say that a query ran out of time, or was killed, before it began.
_NOT_BEGUN = "is killed in pending state"

#: Text in MySQL's refusal, which has the code of a node that went away.
_IS_OF_MYSQL, _NO_DATABASE = "Connections to mysql failed", 614

_HINTS = {code: hint for codes, hint in {**_TERMINAL, **_TRANSIENT}.items() for code in codes}
_TERMINAL_CODES = frozenset(code for codes in _TERMINAL for code in codes)
#: Errors while files are read that say nothing about the file.
_OF_SERVERS = frozenset(
    {81, 159, TOO_MANY_QUERIES, 203, 209, 210, MEMORY_LIMIT_EXCEEDED, 279, QUERY_WAS_CANCELLED, S3_ERROR, 516}
)


def is_terminal(error: Chs3Error) -> bool:
    """Check whether a retry would end the same way."""
    if isinstance(error, ClickHouseServerError):
        if is_broken_off(error):
            return False
        return (
            error.code in _TERMINAL_CODES
            or is_refused(error)
            or _is_archived(error)
            or _is_without_container(error)
            or is_too_many_partitions(error)
        )
    return isinstance(error, TerminalError)


def hint_of(error: Chs3Error) -> str:
    """Return what to do, in one sentence; empty where the error itself says it."""
    if not isinstance(error, ClickHouseServerError):
        return ""
    if hint := _hint_of_source(error):
        return hint
    if is_too_many_partitions(error):
        return "One block held rows of too many periods: the files of a period should hold only that period."
    if error.code == ACCESS_DENIED and (lacks := _LACKS.search(error.message)):
        grant = _OF_SYSTEM.sub("SELECT ON ", lacks["grant"])
        return f"Let an administrator GRANT {grant} to user {lacks['user']!r} there; docs/privileges.md has all grants."
    if _MAX_QUERY_SIZE in error.message:
        return _HINTS[_TOO_DEEP]
    if is_of_storage(error) or is_broken_off(error):
        return "The storage refused a request, or the connection broke: the retry reads all objects again."
    if error.code == QUERY_WAS_CANCELLED and _NOT_BEGUN in error.message:
        return (
            "Somebody ended the query before it began, or max_execution_time did: raise that in the user's profile and "
            "the connection's settings if it is shorter than a second, or clear the task to run it again."
        )
    if error.code in _OF_VALUES and not is_of_insert(error) and "(in file" not in error.message:
        return "ClickHouse rejects a value: if it is not from a file, check the connection's settings."
    return _HINTS.get(error.code, "")


def _hint_of_source(error: ClickHouseServerError) -> str:
    if _is_archived(error):
        return (
            "An object is archived, or in an archive tier of INTELLIGENT_TIERING: restore it, and run the task again."
        )
    if is_refused(error):
        if _is_of_hdfs(error):
            return "HDFS refused the servers' user: name one in hdfs_url that may read the files and their folders."
        return "The storage refused the servers' keys: check the connection that has them, or the named collection."
    if _IS_OF_MYSQL in error.message:
        return _HINTS[_NO_DATABASE]
    if _is_without_container(error):
        return "The servers find no such container: check its name, or the named collection."
    if error.code == S3_ERROR and "NoSuchBucket" in error.message:
        return (
            "The servers find no such bucket: check its name. With a named collection, the key goes on where the "
            "collection's url ends: leave the bucket out."
        )
    if is_without_name_node(error):
        return "The servers find no name node there: check hdfs_url, and that they reach it."
    return ""


def sentence(text: str) -> str:
    """Return a text with a full stop, if there is none: servers' errors mostly do not."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def with_hint(error: Chs3Error, text: str) -> str:
    """Return the text of an error, and what to do."""
    hint = hint_of(error)
    return f"{sentence(text)} {hint}" if hint else text


def is_of_storage(error: ClickHouseServerError) -> bool:
    """Check whether the storage answered with an error, or not at all."""
    return error.code == S3_ERROR or _is_of_azure(error) or _is_of_hdfs(error)


def is_refused(error: ClickHouseServerError) -> bool:
    """Check whether the storage refused the keys."""
    if _is_of_azure(error):
        return bool(_AZURE_REFUSED.search(error.message))
    if _is_of_hdfs(error):
        return bool(_HDFS_REFUSED.search(error.message))
    return error.code == S3_ERROR and bool(_S3_REFUSED.search(error.message))


def _is_of_azure(error: ClickHouseServerError) -> bool:
    return error.code == STD_EXCEPTION and bool(_AZURE.search(error.message))


def _is_of_hdfs(error: ClickHouseServerError) -> bool:
    # ClickHouse gives what HDFS refuses codes of its own: for a file and for a folder.
    is_refused_by_hdfs = error.code in (CANNOT_OPEN_FILE, ACCESS_DENIED) and "inode=" in error.message
    return error.code == HDFS_ERROR or is_refused_by_hdfs


def _is_archived(error: ClickHouseServerError) -> bool:
    return bool(_ARCHIVED.search(error.message))


def _is_without_container(error: ClickHouseServerError) -> bool:
    return _is_of_azure(error) and _NO_CONTAINER in error.message


def is_without_name_node(error: ClickHouseServerError) -> bool:
    """Check whether the servers found no name node of HDFS."""
    return _HDFS_UNREACHABLE in error.message


def is_object_gone(error: ClickHouseServerError) -> bool:
    """Check whether an object was overwritten or deleted while it was read."""
    if _is_of_azure(error):
        return bool(_AZURE_GONE.search(error.message))
    if _is_of_hdfs(error):
        return bool(_HDFS_GONE.search(error.message))
    return error.code == OBJECT_CHANGED or (error.code == S3_ERROR and bool(_S3_GONE.search(error.message)))


def is_broken_off(error: ClickHouseServerError) -> bool:
    """Check whether an answer of the storage was cut off (26.9: "Unexpected EOF", "Cannot read from istream")."""
    return error.code == POCO_EXCEPTION or bool(_BROKEN_OFF.search(error.message))


def is_of_servers(error: ClickHouseServerError) -> bool:
    """Check whether an error while reading a file says nothing about the file: servers, network or storage failed."""
    # `Setting max_upload_part_size (1.00 B) can't be less than …`: of the profile or the connection.
    is_of_setting = error.message.startswith("Setting ")
    is_of_disk = error.code == STD_EXCEPTION and "filesystem error" in error.message
    is_known = error.code in _OF_SERVERS or error.code == OBJECT_CHANGED or is_of_setting or is_of_disk
    return is_known or _is_archived(error) or _is_of_azure(error) or _is_of_hdfs(error) or is_broken_off(error)


def is_of_insert(error: ClickHouseServerError) -> bool:
    """Check whether the insert of a load failed: the statement that reads all of the files, under its own settings."""
    return "_insert" in (error.query_id or "")


def is_too_many_partitions(error: ClickHouseServerError) -> bool:
    """Check whether 252 is about the partitions of one block, which waiting does not change."""
    return error.code == TOO_MANY_PARTS and "partitions for single INSERT block" in error.message
