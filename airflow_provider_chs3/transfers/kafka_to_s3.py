"""Land a topic of Kafka as Parquet objects of periods, each message exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_provider_chs3.core.arguments.declaration import check_destination
from airflow_provider_chs3.defaults import AWS_CONN_ID
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.running_task import airflow_errors
from airflow_provider_chs3.operators._support.schedules import check_schedule

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import ObjectStoragePath

    from airflow_provider_chs3.client.topic import Topic
    from airflow_provider_chs3.core.exchange.landing_request import LandingRequest
    from airflow_provider_chs3.sources.s3 import S3Objects


class KafkaToS3Operator(BaseOperator):
    """Land a topic's messages between two points in time as Parquet objects, in the periods of their timestamps.

    Offsets decide which messages these are: from the first message not before `start` up to, but not including, the
    first one not before `end`. They are found once, and recorded next to the objects. So successive
    runs land every message exactly once, whatever failed on the way. The run whose offsets contain a late message lands
    it, in the period of its timestamp. Each object holds a range of offsets of one partition, in columns `key`, `value`
    (bytes), `partition`, `offset`, `timestamp` and `headers`. It needs the extra `kafka` of this package. See
    `docs/how-to/kafka.md`.

    Args:
        topic: The topic.
        key: Template of the keys: `events/{YYYY-MM}/`, or `events/{YYYY-MM-DD}/{HH}/` for hours; with the bucket, a
            URL: `s3://lake/events/{YYYY-MM}/`. Loads take the same.
        bucket: The bucket, unless `key` names it.
        start: The first point in time, a `datetime` or text in ISO 8601. Default: the start of the run's data interval.
        end: The second point, exclusive. Default: the end of the data interval.
        timezone: Time zone in which days and longer periods begin; hours are in UTC. Default: the DAG's.
        messages_per_object: How many offsets of a partition may share an object. Default: 500,000.
        on_expired: The reaction if Kafka has deleted messages before they were landed: `fail`, or `land_rest`.
            Default: `fail`.
        kafka_conn_id: Connection of type `kafka`. Default: `kafka_default`.
        aws_conn_id: AWS connection, which may list, read and write. Default: Airflow's
            `[chs3] aws_conn_id`, `aws_default`.

    Returns:
        A dict: status (`landed`; `unchanged` if it was landed before), topic, start, end, messages, objects, bytes,
        periods (those that got messages) and seconds.

    Raises:
        ConfigurationError: If an argument is wrong.
    """

    template_fields: Sequence[str] = (
        *("topic", "key", "bucket", "start", "end", "timezone", "on_expired"),
        *("kafka_conn_id", "aws_conn_id"),
    )
    ui_color = "#e8f0d8"

    def __init__(
        self,
        *,
        topic: str,
        key: str | ObjectStoragePath,
        bucket: str | None = None,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        timezone: str | None = None,
        messages_per_object: int = 500_000,
        on_expired: str = "fail",
        kafka_conn_id: str = "kafka_default",
        aws_conn_id: str = AWS_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topic = topic
        check_destination(key, bucket)
        self.key = key
        self.bucket = bucket
        self.start = start
        self.end = end
        self.timezone = timezone
        self.messages_per_object = messages_per_object
        self.on_expired = on_expired
        self.kafka_conn_id = kafka_conn_id
        self.aws_conn_id = aws_conn_id
        self._topic: Topic | None = None
        self._result: dict[str, Any] | None = None

    def prepare_template(self) -> None:
        """Check, while the DAG is parsed, that its runs provide the points in time that are not set."""
        if self.start is None or self.end is None:
            check_schedule(self, instead="start=… and end=…")

    def execute(self, context: Context) -> dict[str, Any]:
        """Land the messages, and return the result.

        Raises:
            AirflowFailException: If an argument is wrong, or a retry would end the same way.
        """
        from airflow_provider_chs3.client.landing import Landing
        from airflow_provider_chs3.client.shared_objects import SharedObjects
        from airflow_provider_chs3.client.topic import Topic
        from airflow_provider_chs3.hooks.kafka import settings_of
        from airflow_provider_chs3.sources.s3.client import QuickS3Hook

        with airflow_errors():
            if self.on_expired not in ("fail", "land_rest"):
                raise ConfigurationError(f"on_expired={self.on_expired!r} is not known: use one of fail, land_rest.")
            request, store = self._request(context), self.store
            client = QuickS3Hook(aws_conn_id=store.conn_id).get_conn()
            objects = SharedObjects(store.source(store.listing()).bucket, client)
            with Topic(self.topic, self.kafka_conn_id, settings_of(self.kafka_conn_id)) as topic:
                lands_the_rest = self.on_expired == "land_rest"
                self._topic = topic
                landing = Landing(
                    request=request, topic=topic, objects=objects, lands_the_rest=lands_the_rest, log=self.log
                )
                self._result = landing.run()
        return self._result

    def on_kill(self) -> None:
        """Stop reading; what is written stays, and the next try continues."""
        if self._topic is not None:
            self._topic.stop()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Return the lineage: from the topic to the periods' folders."""
        from airflow.providers.openlineage.extractors import OperatorLineage
        from openlineage.client.event_v2 import InputDataset, OutputDataset

        from airflow_provider_chs3.core.files.key_template import KeyTemplate
        from airflow_provider_chs3.core.model.period import Period
        from airflow_provider_chs3.hooks.kafka import settings_of

        broker = str(settings_of(self.kafka_conn_id)["bootstrap.servers"]).partition(",")[0]
        periods = map(Period.parse, (self._result or {}).get("periods", ()))
        names = [KeyTemplate(self.store.template).keys_of(period).prefix.rstrip("/") for period in periods]
        return OperatorLineage(
            inputs=[InputDataset(f"kafka://{broker}", self.topic)],
            outputs=[OutputDataset(f"s3://{self.store.place}", name) for name in names],
        )

    @property
    def store(self) -> S3Objects:
        """The place that the objects are written to."""
        from airflow_provider_chs3.sources.s3 import S3Objects

        return S3Objects(key=self.key, bucket=self.bucket, aws_conn_id=self.aws_conn_id)

    def _request(self, context: Context) -> LandingRequest:
        from airflow_provider_chs3.core.exchange.landing_request import LandingRequest

        zone = self.timezone or (str(self.dag.timezone.name) if self.has_dag() else "UTC")
        return LandingRequest(
            topic=self.topic,
            start=_point("start", self.start, context),
            end=_point("end", self.end, context),
            key=self.store.template,
            timezone=zone,
            messages_per_object=self.messages_per_object,
        )


def _point(name: str, given: datetime | str | None, context: Context) -> datetime:
    """Return a point in time that is set, or else of the run's data interval."""
    at: Any = given or context.get(f"data_interval_{name}")
    try:
        return datetime.fromisoformat(at if isinstance(at, str) else at.isoformat())
    except (AttributeError, ValueError):
        raise ConfigurationError(
            f"{name}={given!r} is not a point in time: use a datetime or ISO 8601, or schedule the DAG by intervals."
        ) from None
