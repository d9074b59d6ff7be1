"""The model of a game: what a period must hold, and a load must do with it, in a few lines that know no parts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

Row = tuple[int, int, int]
Rows = Counter[Row]
#: Names of files, each with the number of its version.
Files = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class HeldRows:
    """Rows that await a decision."""

    rows: Rows
    files: Files
    epoch: int
    structure: str


@dataclass
class ModelPeriod:
    """A period."""

    files: dict[str, tuple[int, Rows]] = field(default_factory=dict)
    content: Rows = field(default_factory=Counter)
    published: Files | None = None
    is_changed: bool = False
    is_pinned: bool = False
    is_restored: bool = False
    is_in_doubt: bool = False
    held: HeldRows | None = None
    epoch: int = 0
    history: list[Rows] = field(default_factory=list)
    of_view: Counter[Any] = field(default_factory=Counter)
    structure: str = ""

    @property
    def now(self) -> Files:
        """Its files as they are."""
        return tuple(sorted((name, number) for name, (number, _) in self.files.items()))

    @property
    def rows_of_files(self) -> Rows:
        """Their rows."""
        return sum((rows for _, rows in self.files.values()), Counter())

    @property
    def is_of_others(self) -> bool:
        """Whether it holds rows of others, or lacks some because of them."""
        return self.is_changed or (self.published is None and bool(self.content))

    @property
    def is_as_published(self) -> bool:
        """Whether it is what a load, or a restore, has published."""
        return self.published is not None and not self.is_changed and not self.is_in_doubt

    @property
    def is_current(self) -> bool:
        """Whether it is published from its files as they are."""
        return self.is_as_published and not self.is_restored and self.published == self.now

    @property
    def has_hold(self) -> bool:
        """Whether a person has something to decide, whatever became of the files."""
        held = self.held
        if held is None or (held.epoch, held.structure) != (self.epoch, self.structure):
            return False
        return not (self.is_as_published and not self.is_restored and held.files == self.published)

    def load_does(self, *, on_changed: str = "fail", is_held: bool = False, is_reload: bool = False) -> set[str]:
        """Return what a load may do: `published`, `unchanged`, `held`, `skipped`, or `error`."""
        if self.is_pinned:
            return {"skipped"}
        if self.has_hold and self.held and self.held.files == self.now and not is_reload:
            return {"held"}
        if self.is_current and not is_reload:
            return {"unchanged"}
        if self.is_of_others and on_changed != "reload" and not self.is_in_doubt:
            return {"held" if on_changed == "hold" else "error"}
        loads = {"held" if is_held else "published"}
        if not self.is_in_doubt:
            return loads
        # A dead load may have published it, or held rows; its intent is completed without a check.
        return loads | {"published", "unchanged", "held"} | ({"error"} if self.is_of_others else set())

    def publish(self, rows: Rows, files: Files) -> None:
        """Hold these rows."""
        self._hold(rows)
        self.published, self.held = files, None
        self.is_changed = self.is_restored = self.is_in_doubt = False

    def restore(self, rows: Rows) -> None:
        """Hold the rows of an earlier version, pinned."""
        self._hold(rows)
        self.published, self.is_changed, self.is_in_doubt = self.published or (), False, False
        self.is_pinned = self.is_restored = True

    def change(self, rows: Rows) -> None:
        """Hold these rows, which somebody has made of it."""
        if rows != self.content:
            self._hold(rows)
            self.be_changed()

    def be_changed(self) -> None:
        """Be what somebody has made of it."""
        if self.published is None and not self.content:
            # Nothing is there that a load would undo; one that died may have begun or not.
            return
        self.is_changed = self.is_changed or self.published is not None or self.is_in_doubt
        self.is_in_doubt = False

    def _hold(self, rows: Rows) -> None:
        self.history.append(self.content)
        self.content = rows
        self.epoch += 1
