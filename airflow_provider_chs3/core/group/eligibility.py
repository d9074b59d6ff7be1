"""Which loads can read several months with one insert."""

from __future__ import annotations

from airflow_provider_chs3.core.request.load_request import LoadRequest


def why_one_by_one(request: LoadRequest) -> str:
    """Return why months are loaded one by one; empty if they can be loaded together.

    Args:
        request: The load of any of the months.
    """
    policies = request.policies
    if why := request.source.why_one_by_one:
        return why
    if policies.write_mode != "replace":
        return f"write_mode={policies.write_mode!r}"
    if request.is_durable:
        return "inserts continue without their worker"
    if request.reload:
        return "this run requests a reload"
    # Skipped rows could not be distinguished from missing ones.
    if policies.on_other_months != "fail":
        return f"policies['on_other_months']={policies.on_other_months!r}"
    # A NULL takes the day of the column's default, whatever month its file is of.
    if request.selection.null_as_default:
        return "casts={'null_as_default': True}"
    return ""
