"""The program of games, for a few steps: it must not rot between long runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.games.play import Game
from tests.games.tables import OF_GAMES
from tests.support.lake import IS_OLDEST, Lake


@pytest.mark.timeout(900)
@pytest.mark.thorough
@pytest.mark.parametrize(("seed", "steps"), [(1, 4), (1, 8), (4, 40), (5, 40), (2, 40), (3, 40)])
def test_table_view_and_versions_are_as_the_model_says_after_each_step(seed: int, steps: int, tmp_path: Path) -> None:
    on = "plain" if IS_OLDEST else "engine"
    options = ["--steps", str(steps), "--seed", str(seed), "--on", on, "--resume", str(tmp_path)]
    command = [sys.executable, "-m", "tests.games", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.splitlines()[-1].endswith(f": {steps} steps, 0 wrong")


def test_a_period_that_is_held_before_it_was_ever_published(lake_of_one: Lake, tmp_path: Path) -> None:
    # Without a view, whose table is held, too.
    game = Game(lake_of_one, seed=[*OF_GAMES].index("set of partitions") + len(OF_GAMES), log=tmp_path / "log")
    first, second, _ = game.tables.periods
    game._hold(first)
    assert [*game.answers.differences()] == []
    assert "held since" in game.answers.listed()[first]["state"]
    game._forget(first)
    assert [*game.answers.differences()] == []
    game._loaded([first], on_changed="fail")
    assert lake_of_one.left_behind() == []
    game._insert(second)
    game._loaded([second], on_changed="hold")
    assert [*game.answers.differences()] == []
    game._discard(second)
    game.end()
