"""Nobody changes by accident what users name in their DAGs."""

from __future__ import annotations

from tests.packaging.public_api import SNAPSHOT, public_api


def test_the_public_names_are_those_of_the_snapshot() -> None:
    # On purpose? `./dev run python -m tests.packaging.public_api`, and a news fragment; see docs/compatibility.md.
    assert public_api().splitlines() == SNAPSHOT.read_text(encoding="utf-8").splitlines()
