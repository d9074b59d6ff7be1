"""Arguments with a second name: `s3_bucket` and `s3_key`, as the transfers of Airflow's own providers have them."""

from __future__ import annotations

from airflow_provider_chs3.exceptions import ConfigurationError


def either_name(name: str, given: str | None, *, as_s3: str | None) -> str | None:
    """Return an argument that is given by one of its names, `<name>` or `s3_<name>`.

    Args:
        name: The name without `s3_`.
        given: What it is given as by this name.
        as_s3: What it is given as by the other.

    Raises:
        ConfigurationError: If it is given by both.
    """
    if given is not None and as_s3 is not None:
        raise ConfigurationError(
            f"{name}={given!r} and s3_{name}={as_s3!r} are the same argument by two names: remove s3_{name}."
        )
    return given if as_s3 is None else as_s3
