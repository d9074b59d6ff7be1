"""A page of somebody else, open in the browser of who is logged in to Airflow, starts no run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tests.plugin import runs
from tests.plugin.runs import ACTIONS, LOADER
from tests.support.browsing import PAGE

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: The types that a page can send without asking the server first, and JSON, which it cannot.
SENDS = {
    "text": "fetch(url, {method: 'POST', mode: 'no-cors', credentials: 'include', body})",
    "no type": "fetch(url, {method: 'POST', mode: 'no-cors', credentials: 'include', body: new Blob([body])})",
    "form data": (
        "fetch(url, {method: 'POST', mode: 'no-cors', credentials: 'include', body: new URLSearchParams([[body, '']])})"
    ),
    "json": (
        "fetch(url, {method: 'POST', credentials: 'include', body, headers: {'Content-Type': 'application/json'}})"
    ),
}
#: The browser asks the server first whether JSON may be sent, is told no, and sends nothing.
BLOCKED = 0
FORM = """
    const form = Object.assign(document.createElement("form"), { method: "POST", action: url, enctype: "text/plain" });
    const field = document.createElement("input");
    Object.assign(field, { name: '{"logical_date": null, "note": "', value: '"}' });
    form.append(field);
    document.body.append(form);
    form.submit();
"""


class Blank(BaseHTTPRequestHandler):
    """A page that is nobody's."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><body></body>")

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def other_port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Blank) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def attack(
    open_page: Callable[..., tuple[Page, list[str]]], url: str, other_port: int
) -> Callable[[str], dict[str, int]]:
    """Has a page on that host, where an admin of Airflow looks at it, send what it can; gives Airflow's answers."""
    runs.make_known(LOADER, ACTIONS)

    def attack(host: str) -> dict[str, int]:
        sent = {"url": f"{url}/api/v2/dags/{LOADER}/dagRuns", "body": '{"logical_date": null}'}
        page, _ = open_page(PAGE, role="admin")
        # Airflow's own origin can start a run.
        page.evaluate(f"({{url, body}}) => {SENDS['json']}", sent)
        assert len(runs.runs(LOADER)) == 1
        page.goto(f"http://{host}:{other_port}/")
        answers: list[int] = []
        page.on("response", lambda response: answers.append(response.status) if "/api/v2/" in response.url else None)
        found = {}
        for how, send in SENDS.items():
            answers.clear()
            page.evaluate(f"async ({{url, body}}) => {{ try {{ await {send} }} catch {{ }} }}", sent)
            found[how] = answers[-1] if answers else BLOCKED
        answers.clear()
        with page.expect_navigation():
            page.evaluate(f"({{url}}) => {{ {FORM} }}", sent)
        return found | {"form": answers[-1]}

    return attack


@pytest.mark.thorough
def test_another_origin_of_the_same_site_sends_the_cookie_but_no_json(
    attack: Callable[[str], dict[str, int]],
) -> None:
    assert attack("127.0.0.1") == {"text": 422, "no type": 422, "form data": 422, "json": BLOCKED, "form": 422}
    assert len(runs.runs(LOADER)) == 1


def test_airflows_own_origin_can_start_a_run_and_another_site_does_not_even_send_the_cookie(
    attack: Callable[[str], dict[str, int]],
) -> None:
    assert attack("localhost") == {"text": 401, "no type": 401, "form data": 401, "json": BLOCKED, "form": 401}
    assert len(runs.runs(LOADER)) == 1
