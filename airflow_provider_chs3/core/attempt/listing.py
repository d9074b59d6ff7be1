"""Step 1 of a load: list the month's objects, and see whether they are ready."""

from __future__ import annotations

from airflow_provider_chs3.core.request.load_request import LoadRequest
from airflow_provider_chs3.core.source.key_template import KeyTemplate
from airflow_provider_chs3.core.source.s3_source import S3Source
from airflow_provider_chs3.core.values.models import Manifest
from airflow_provider_chs3.core.workflow.operations import Steps
from airflow_provider_chs3.exceptions import ConfigurationError, NotReadyError


def list_ready_month(request: LoadRequest) -> Steps[tuple[S3Source, Manifest]]:
    """List the month's objects.

    Returns:
        The source, with its base known from now on, and the manifest.

    Raises:
        NotReadyError: If the ready marker is missing, an object is too young, or there is none and that is an error.
    """
    policies = request.policies
    if policies.ready_key is not None:
        yield from _check_ready(request, policies.ready_key)
    source, manifest = yield from request.source.list_month(request.month)
    if not manifest.objects and policies.on_no_objects == "fail":
        where = f"{request.source.bucket or request.source.credentials.named_collection}/{request.source.template.text}"
        raise NotReadyError(
            f"No objects for {request.month} under {where}. If that is right for this month, "
            "on_no_objects='skip' leaves it as it is and 'empty' publishes it without rows."
        )
    youngest = max(manifest.objects, key=lambda each: each.last_modified, default=None)
    # With no age asked for no clock is looked at: the storage's may be ahead, and objects may come after `now`.
    if policies.min_object_age_seconds <= 0 or youngest is None:
        return source, manifest
    if (request.now - youngest.last_modified).total_seconds() < policies.min_object_age_seconds:
        raise NotReadyError(
            f"{youngest.path} was written at {youngest.last_modified:%Y-%m-%d %H:%M:%S} UTC, less than "
            f"min_object_age_seconds={policies.min_object_age_seconds:g} ago: it may not be complete yet."
        )
    return source, manifest


def _check_ready(request: LoadRequest, ready_key: str) -> Steps[None]:
    key = ready_key
    if "{" in ready_key:
        keys = KeyTemplate(ready_key).keys_of(request.month)
        if not keys.is_one_key:
            raise ConfigurationError(
                f"ready_key={ready_key!r} must name one object: take wildcards and days out of it."
            )
        key = keys.prefix
    elif "/" not in ready_key:
        prefix = request.source.template.keys_of(request.month).prefix
        key = prefix[: prefix.rfind("/") + 1] + ready_key
    if not (yield from request.source.has_object(key)):
        raise NotReadyError(f"The ready marker {key} is not there yet, so {request.month} was not loaded.")
