"""The meaning of an error for a retry."""

from __future__ import annotations

import inspect

import pytest

from airflow_provider_chs3 import exceptions
from airflow_provider_chs3.core.model.error_codes import hint_of, is_object_gone, is_of_servers, is_terminal
from airflow_provider_chs3.exceptions import (
    Chs3Error,
    ClickHouseConnectionError,
    ClickHouseServerError,
    ConfigurationError,
    NotReadyError,
    PreflightError,
    RowError,
    SourceError,
    SupersededError,
    TargetChangedError,
    TerminalError,
    TransientError,
    VerificationError,
)
from tests.support.messages import known_codes

EVERY = [each for _, each in inspect.getmembers(exceptions, inspect.isclass) if each.__module__ == exceptions.__name__]


def server_error(code: int) -> ClickHouseServerError:
    return ClickHouseServerError(code, "NAME", "message", "node:9000", "q1")


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (6, "a value cannot be parsed"),
        (8, "a column is missing in a file"),
        (36, "bad arguments"),
        (47, "unknown identifier"),
        (48, "not implemented"),
        (53, "type mismatch"),
        (60, "unknown table"),
        (70, "a value cannot be converted"),
        (107, "no file"),
        (115, "unknown setting"),
        (122, "other columns"),
        (164, "read-only"),
        (277, "a profile that demands an index"),
        (394, "a person's kill"),
        (497, "no privilege"),
        (516, "wrong password"),
        (636, "no schema can be found"),
        (724, "too many tables"),
    ],
)
def test_a_retry_would_meet_it_again(code, meaning):
    assert is_terminal(server_error(code)), meaning


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (3, "unexpected end"),
        (32, "end of data"),
        (159, "timeout"),
        (202, "too many queries"),
        (209, "socket timeout"),
        (210, "network"),
        (216, "still running"),
        (241, "memory"),
        (242, "read-only replica"),
        (252, "too many parts"),
        (279, "all connections failed"),
        (499, "S3"),
        (999, "Keeper"),
        (1009, "an object changed"),
        (123456, "not known yet"),
    ],
)
def test_a_retry_may_help(code, meaning):
    assert not is_terminal(server_error(code)), meaning


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (499, "HTTP response code: 403"),
        (499, "Code: InvalidAccessKeyId"),
        (252, "Too many partitions for single INSERT block (more than 100)"),
    ],
)
def test_the_message_tells_that_a_retry_would_meet_it_again(code, message):
    assert is_terminal(ClickHouseServerError(code, "NAME", message, "node:9000", "q1"))


def test_every_code_that_is_known_has_a_way_out():
    assert [code for code in sorted(known_codes()) if not hint_of(server_error(code)).endswith(".")] == []


def test_no_code_is_both_terminal_and_not():
    from airflow_provider_chs3.core.model import error_codes

    codes = [code for codes in (*error_codes._TERMINAL, *error_codes._TRANSIENT) for code in codes]
    assert len(codes) == len(set(codes))


def test_what_is_not_known_has_no_hint():
    assert hint_of(server_error(123456)) == ""
    assert hint_of(TerminalError("x")) == ""


@pytest.mark.parametrize(
    "error",
    [
        TerminalError("x"),
        ConfigurationError("x"),
        RowError(1, "x"),
        PreflightError("x"),
        SourceError("x"),
        TargetChangedError("x"),
        SupersededError("x"),
        VerificationError("x"),
    ],
)
def test_terminal_errors_are_terminal(error):
    assert is_terminal(error)


@pytest.mark.parametrize(
    "error", [TransientError("x"), NotReadyError("x"), ClickHouseConnectionError("x", "node:9000"), Chs3Error("x")]
)
def test_others_are_not(error):
    assert not is_terminal(error)


@pytest.mark.parametrize("error", EVERY, ids=lambda error: error.__name__)
def test_every_error_is_in_the_tree_that_its_module_draws(error):
    assert issubclass(error, Chs3Error)
    assert error.__name__ in exceptions.__doc__


def test_a_preflight_error_shows_every_finding():
    assert str(PreflightError("one", "two")) == "one\ntwo"


def test_a_server_error_names_code_node_and_query():
    assert str(server_error(60)) == "ClickHouse error 60 (NAME) from node:9000, query q1: message"


def test_a_connection_error_names_node_and_query():
    assert str(ClickHouseConnectionError("gone", "node:9000", "q1")) == (
        "No answer from ClickHouse at node:9000, query q1: gone"
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (499, "The operation is not valid for the object's storage class: (in file/uri lake/a.jsonl)"),
        (499, "The operation is not valid for the object's access tier"),
        (1001, "parquet::ParquetStatusException: IOError: Code: 499. … not valid for the object's storage class."),
        (1001, "Azure::Storage::StorageException: 409 This operation is not permitted on an archived blob."),
    ],
)
def test_an_archived_object_is_terminal_and_no_fault_of_the_file(code: int, message: str) -> None:
    error = ClickHouseServerError(code, "", message, "node:9000", "q1")
    assert is_terminal(error)
    assert is_of_servers(error)
    assert "restore it" in hint_of(error)


def test_an_expired_session_token_of_which_servers_tell_no_more_than_the_status_is_terminal():
    message = "Failed to get object info: No response body.. HTTP response code: 400: while reading 'a.parquet'"
    error = ClickHouseServerError(499, "S3_ERROR", message, "node:9000", "q1")
    assert is_terminal(error)
    assert "refused the servers' keys" in hint_of(error)


def storage_error(message: str, code: int = 499) -> ClickHouseServerError:
    return ClickHouseServerError(code, "NAME", message, "node:9000", "q1")


def test_a_number_in_a_key_does_not_pass_for_a_status():
    busy = "HTTP response code: 503: while reading 'trips/403/404.parquet' in bucket 'b'"
    assert not is_terminal(storage_error(busy))
    assert not is_object_gone(storage_error(busy))
    assert is_terminal(storage_error("HTTP response code: 403. Please check your AWS credentials and permissions"))
    assert is_object_gone(storage_error("HTTP response code: 404"))


@pytest.mark.parametrize(
    ("code", "message", "terminal", "hint"),
    [
        (76, 'Unable to open HDFS file: hdfs://h/f. Error: Permission denied: user=u, inode="/f"', True, "user: name"),
        (
            497,
            'Cannot list directory /d: Permission denied: user=u, access=READ_EXECUTE, inode="/d"',
            True,
            "user: name",
        ),
        (660, "Error: AccessControlException: Permission denied: user=u, access=EXECUTE", True, "user: name one"),
        (660, "/f does not exist. Error: FileNotFoundException: Path /f does not exist", False, "refused a request"),
        (660, "Unable to connect to HDFS: Hdfs::HdfsRpcException: Connection refused", False, "find no name node"),
    ],
)
def test_an_error_of_hdfs_says_whether_a_retry_helps(code, message, terminal, hint):
    error = storage_error(message, code)
    assert is_terminal(error) == terminal
    assert hint in hint_of(error)
    assert is_of_servers(error)
    assert is_object_gone(error) == ("FileNotFound" in message)


def test_a_bucket_that_is_missing_may_be_named_twice():
    assert "leave the bucket out" in hint_of(storage_error("Could not list objects in bucket 'b' … NoSuchBucket", 499))


AZURE = "DB::Exception: Azure::Storage::StorageException: "


@pytest.mark.parametrize(
    ("message", "terminal", "hint"),
    [
        (f"{AZURE}403 Server failed to authenticate the request.", True, "refused the servers' keys"),
        ("Azure::Core::Credentials::AuthenticationException: Bearer token …", True, "refused the servers' keys"),
        (f"{AZURE}404 The specified container does not exist.", True, "find no such container"),
        (f"{AZURE}404 The specified blob does not exist.", False, "refused a request, or the connection broke"),
        (f"{AZURE}500 Poco::Exception. Code: 1000, e.code() = 111, Connection refused", False, "refused a request"),
        ("Azure::Core::Http::TransportException: Poco::Exception. Code: 1000", False, "refused a request"),
    ],
)
def test_an_error_of_azure_says_whether_a_retry_helps(message, terminal, hint):
    error = storage_error(message, 1001)
    assert is_terminal(error) == terminal
    assert hint in hint_of(error)
    assert is_of_servers(error)
    assert is_object_gone(error) == ("specified blob" in message)


def test_an_error_of_another_library_is_none_of_the_storage():
    error = storage_error("parquet::ParquetInvalidOrCorruptedFileException: Invalid: Parquet magic bytes", 1001)
    assert not is_of_servers(error)
    assert "A library of the server failed" in hint_of(error)


def test_an_error_of_a_servers_own_files_says_nothing_about_the_object():
    message = "std::filesystem::filesystem_error: filesystem error: cannot rename: No space left on device"
    assert is_of_servers(storage_error(message, 1001))


def test_a_missing_database_is_no_unreadable_file():
    assert is_of_servers(storage_error("Database taxi does not exist", 81))


def test_an_answer_that_broke_off_is_no_unreadable_file():
    broken = (
        "structure cannot be extracted:\nPoco::Exception. Code: 1000, e.code() = 0, Malformed message: Unexpected EOF"
    )
    for error in (storage_error(broken, 636), storage_error("Malformed message: Unexpected EOF", 1000)):
        assert not is_terminal(error)
        assert is_of_servers(error)
        assert hint_of(error).startswith("The storage refused a request")
    assert not is_of_servers(storage_error("Not a Parquet file", 636))


@pytest.mark.parametrize(
    ("asked", "grant"),
    [
        ("SELECT(macro, substitution) ON system.macros", "SELECT ON system.macros"),
        ("SHOW COLUMNS ON system.parts", "SELECT ON system.parts"),
        ("READ ON REMOTE.", "READ ON REMOTE"),
        ("SELECT(a, b) ON taxi.trips", "SELECT(a, b) ON taxi.trips"),
        ("INSERT(a) ON taxi.t, SELECT(x) ON system.parts", "INSERT(a) ON taxi.t, SELECT ON system.parts"),
    ],
)
def test_a_privilege_that_is_missing_is_told_as_a_grant(asked: str, grant: str) -> None:
    message = f"loader: Not enough privileges. To execute this query, it's necessary to have the grant {asked}"
    hint = hint_of(ClickHouseServerError(497, "ACCESS_DENIED", message, "node:9000", "q1"))
    assert hint == f"Let an administrator GRANT {grant} to user 'loader' there; docs/privileges.md has all grants."


def test_a_setting_that_servers_refuse_says_nothing_about_a_file() -> None:
    message = "Setting max_upload_part_size (1.00 B) can't be less than setting min_upload_part_size (16.00 MiB)"
    assert is_of_servers(ClickHouseServerError(36, "", message, "node:9000", "q1"))


def test_a_query_that_was_ended_before_it_began_may_have_been_given_no_time():
    """25.8 says so, and 26.9 says 159."""
    error = ClickHouseServerError(394, "QUERY_WAS_CANCELLED", "Query 'x' is killed in pending state", "h:1")
    assert hint_of(error).startswith("Somebody ended the query before it began, or max_execution_time did")
