"""Connections to Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_chs3.exceptions import ConfigurationError


def settings_of(kafka_conn_id: str) -> Mapping[str, Any]:
    """Return the settings of librdkafka that a connection holds."""
    try:
        # Import now what the extra brings, rather than after the first messages were read.
        import pyarrow  # noqa: F401
        from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook
    except ImportError as error:
        raise ConfigurationError(
            "Kafka needs a library that is not installed: install the extra kafka of airflow-provider-chs3."
        ) from error

    class Settings(KafkaBaseHook):
        def _get_client(self, config: Any) -> Any:
            return config

    try:
        settings: Mapping[str, Any] = Settings(kafka_config_id=kafka_conn_id).get_conn
    except ValueError as error:
        raise ConfigurationError(f"Kafka connection {kafka_conn_id!r}: {error}") from error
    return settings
