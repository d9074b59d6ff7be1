"""No secret, nor a part of one, stays in a message."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.client.secrets import scrub


@pytest.mark.parametrize(
    ("text", "secret", "shown"),
    [
        ("s3('http://b', 'AKIA', 'wJalrXUtnFEMI')", "wJalrXUtnFEMI", "s3('http://b', 'AKIA', '***')"),
        ("twice pw, pw", "pw", "twice ***, ***"),
        ("the literal 'it\\'s a\\\\b'", "it's a\\b", "the literal '***'"),
        ("url?sig=a%2Fb%2Bc", "a/b+c", "url?sig=***"),
        ("nothing here", "secret", "nothing here"),
        ("nothing here", "", "nothing here"),
        ("", "secret", ""),
    ],
)
def test_a_secret_becomes_stars(text: str, secret: str, shown: str) -> None:
    assert scrub(text, [secret]) == shown


def test_the_end_of_a_secret_that_a_server_cut_becomes_stars() -> None:
    assert scrub("Syntax error: failed at 7: UtnFEMI/K7MDENG')", ["wJalrXUtnFEMI/K7MDENG"]) == (
        "Syntax error: failed at 7: ***')"
    )


def test_the_beginning_of_a_secret_that_a_server_cut_becomes_stars() -> None:
    assert scrub("in query: 'wJalrXUtn", ["wJalrXUtnFEMI/K7MDENG"]) == "in query: '***"


def test_every_secret_is_looked_for() -> None:
    assert scrub("one-key two-key", ["one-key", "two-key"]) == "*** ***"
