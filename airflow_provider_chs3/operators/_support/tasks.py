"""The arguments of tasks that load files, as far as several modules read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.operators._support.month_task import MonthTask

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


class ReadsFiles(MonthTask):
    """A task that reads files. Each operator says what its arguments mean."""

    file_format: str | None
    compression: str | None
    columns: Sequence[str] | None
    #: As the other arguments that may be files, an object once they are read.
    select: Any
    null_as_default: bool
    lossy_columns: Sequence[str] | None
    naive_timestamps: str | None
    csv: Any
    distribution: str
    settings: Any
    node_specs: Any
    memory_share: float
    cancel_on_kill: bool
    month: str | None
    has_month: bool


class LoadTask(ReadsFiles):
    """A task that loads a month."""

    write_mode: str
    on_no_objects: str
    ready_key: str | None
    min_object_age_seconds: float
    max_shrink_fraction: float
    replace_unknown: bool
    on_target_changed: str
    on_other_months: str
    incremental: bool
    max_increments: int
    object_column: str | None
    count_again: bool
    unproved_codecs: str
    create_table: str
    on_new_columns: str
    parallel_months: int | None
    use_calibration: bool
    progress_interval_seconds: float
    deferrable: bool
    merge_health: Mapping[str, Any] | None

    @property
    def defers_inserts(self) -> bool:
        """Whether inserts continue without their worker."""
        # Appended rows cannot be distinguished from earlier ones: such an insert must end with its process.
        return self.deferrable and self.write_mode == "replace"

    def done(
        self, context: Context, result: dict[str, object], merges: Any = None, *, since: float | None = None
    ) -> dict[str, object]:
        """End with a result and the verdicts on its merges; `since` is the start of the wait for them."""
        raise NotImplementedError
