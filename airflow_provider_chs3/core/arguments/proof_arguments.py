"""The arguments of operators and commands that compare periods with their objects."""

from __future__ import annotations

from airflow_provider_chs3.core.arguments.declaration import Argument, flag

OBJECT_COLUMN = Argument(
    name="object_column",
    help="The table's column that holds the object of each row: its path, key or name. Differences then name the "
    "objects, and a sample can be taken.",
    without="an object is named only if its rows alone are missing or doubled",
)
SAMPLE = Argument(
    name="sample",
    help="Read at most this many objects of each period, spread over all of them, and compare only their rows; needs "
    "`object_column`.",
    type="int | str | None",
    without="all objects",
    least=1,
)
FAIL_ON_DIFFERENCE = flag(
    "fail_on_difference",
    "Whether the task fails if a period differs or cannot be compared; else the tasks after it decide.",
    default=True,
)
PROVE = flag(
    "prove",
    "Whether to compare the values, too, which reads the objects and the periods' rows once more; a period is adopted "
    "only if they are equal.",
)
OF_PROOF = (OBJECT_COLUMN, SAMPLE, FAIL_ON_DIFFERENCE)
