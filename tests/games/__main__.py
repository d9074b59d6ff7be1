"""A long run: `python -m tests.games --steps 1000 --seed 1 --on engine --resume docs/tested/games`.

Plays games against a model: files come, change and go, loads run, hold, are killed and meet each other, people approve,
discard, restore, adopt and forget, others insert, delete and alter, servers die. After each step the table, a view's
table and every kept version are compared with the model, value by value, and so is what plan, ledger and page say.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.long_run import SERVERS, narrow_cluster, narrow_lake, own_airflow

if TYPE_CHECKING:
    from tests.games.play import Game


def main() -> int:
    """Play games, and tell how they ended."""
    parser = argparse.ArgumentParser(prog="python -m tests.games", description=__doc__)
    parser.add_argument("--steps", type=int, default=100, help="how many steps, over all games (100)")
    parser.add_argument("--each", type=int, default=50, help="steps of each game (50)")
    parser.add_argument("--seed", type=int, default=1, help="of the first game (1)")
    parser.add_argument("--on", choices=("engine", "plain"), default="engine", help="which servers (engine)")
    parser.add_argument("--resume", type=Path, help="a folder of results, to which these are added")
    given = parser.parse_args()
    # Modules of the tests ask for the program when they are imported.
    with own_airflow("games", CHS3_CLICKHOUSE_PROGRAM=SERVERS[given.on]) as home:
        return _run(given, home)


def _run(given: argparse.Namespace, home: Path) -> int:
    from airflow_provider_chs3.testbed.s3 import S3Server
    from tests.games.play import Game
    from tests.support.killing import import_hooks
    from tests.support.long_run import Results

    results = Results(given.resume or home / "results")
    taken, wrong, seed = 0, 0, given.seed
    import_hooks()
    with ExitStack() as stack:
        s3 = stack.enter_context(S3Server.start())
        lake = narrow_lake("games", stack.enter_context(narrow_cluster(given.on, 1, home / "cluster")), s3)
        version = lake.on_node(0, "SELECT version()")[0][0]
        while taken < given.steps:
            game = Game(lake, seed=seed, log=home / "worker.log")
            of_game, found = _play(game, min(given.each, given.steps - taken), seed)
            results.write(
                f"{given.on}-{given.seed}",
                server=version,
                span=game.tables.span.name,
                engine=game.tables.engine,
                seed=seed,
                steps_taken=of_game.total(),
                wrong=found,
                seen=dict(sorted(of_game.items())),
            )
            taken, wrong, seed = taken + of_game.total(), wrong + len(found), seed + 1
    print(f"{given.on} {version}: {taken} steps, {wrong} wrong")
    return int(bool(wrong))


def _play(game: Game, steps: int, seed: int) -> tuple[Counter[str], list[str]]:
    seen = Counter[str]()
    for number in range(1, steps + 1):
        try:
            did, wrong = game.step()
        except Exception as error:
            did, wrong = "an error", f"{type(error).__name__}: {error}"
        seen[game.kind] += 1
        did = did.replace("\n", " ")
        print(
            f"{game.tables.span.name}, {game.tables.engine}, seed {seed}, step {number}: {did}; {wrong or 'right'}",
            flush=True,
        )
        if wrong:
            return seen, [f"step {number}: {did}; {wrong}"]
    game.end()
    return seen, []


if __name__ == "__main__":
    sys.exit(main())
