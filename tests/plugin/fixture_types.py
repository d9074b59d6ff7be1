"""Types of what fixtures of the page's tests give."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from fastapi.testclient import TestClient

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: A client of the API, as a user of a role, or as nobody.
AsUser: TypeAlias = Callable[[str | None], TestClient]
#: Opens a path of the page, as `open_page` does; gives the page, and what it complains about.
Open: TypeAlias = Callable[..., tuple["Page", list[str]]]
