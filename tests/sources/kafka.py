"""A local Kafka of one broker, of Maven's jars."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from airflow_provider_chs3.testbed.processes import HOST, LocalServer, free_ports
from tests.sources.hdfs import JAVA_OPTIONS
from tests.sources.servers.local import launch, new_folder
from tests.sources.servers.packages import from_maven, required

_VERSION = "4.1.1"
_JARS = (f"org.apache.kafka:kafka_2.13:{_VERSION}",)
_CLUSTER_ID = "chs3chs3chs3chs3chs3cg"
_LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_TIMEOUT_SECONDS = 180.0


@dataclass(frozen=True, kw_only=True)
class KafkaServer(LocalServer):
    """A running broker, which refuses a wrong password."""

    address: str
    user: str
    password: str = field(repr=False)

    @classmethod
    def start(cls) -> Self:
        java = required("java", hint="apt-get install default-jre-headless")
        jars = from_maven(f"kafka-{_VERSION}", _JARS)
        port, inner_port, controller_port = free_ports(3)
        user, password = "chs3", secrets.token_urlsafe()
        with new_folder("kafka") as folder:
            properties = folder / "server.properties"
            described = _properties(folder, ports=(port, inner_port, controller_port), user=user, password=password)
            properties.write_text("".join(f"{name}={value}\n" for name, value in described.items()), encoding="utf-8")
            command = [java, *JAVA_OPTIONS, "-cp", f"{jars}/*"]
            storage = ["kafka.tools.StorageTool", "format", "--cluster-id", _CLUSTER_ID, "--standalone"]
            subprocess.run([*command, *storage, "--config", str(properties)], check=True, capture_output=True)
            process = launch([*command, "kafka.Kafka", str(properties)], name="Kafka", folder=folder, port=port)
        return cls(process=process, folder=folder, address=f"{HOST}:{port}", user=user, password=password)

    def settings(self, **more: Any) -> dict[str, Any]:
        """The settings of a client of confluent-kafka, with further ones, which take precedence."""
        login = {"sasl.mechanisms": "PLAIN", "sasl.username": self.user, "sasl.password": self.password}
        return {"bootstrap.servers": self.address, "security.protocol": "SASL_PLAINTEXT", **login, **more}

    def create_topic(self, name: str, *, partitions: int = 1) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        # The client must stay until the broker has answered.
        client = AdminClient(self.settings())
        (created,) = client.create_topics([NewTopic(name, partitions, 1)]).values()
        created.result(_TIMEOUT_SECONDS)

    def produce(self, topic: str, values: Sequence[bytes], *, partition: int = 0) -> None:
        """Append messages to a partition, in this order, and wait until the broker has them."""
        from confluent_kafka import Producer

        failed: list[Any] = []
        producer = Producer(self.settings())
        for value in values:
            producer.produce(
                topic, value, partition=partition, on_delivery=lambda error, _: error and failed.append(error)
            )
        left = producer.flush(_TIMEOUT_SECONDS)
        assert (left, failed) == (0, [])


def _properties(folder: Path, *, ports: tuple[int, int, int], user: str, password: str) -> dict[str, Any]:
    """Return the broker's configuration: only clients log in, as traffic between its own parts is not for tests."""
    port, inner_port, controller_port = ports
    internal_topics = ("offsets.topic", "transaction.state.log")
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.bootstrap.servers": f"{HOST}:{controller_port}",
        "listeners": f"CLIENT://{HOST}:{port},INNER://{HOST}:{inner_port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"CLIENT://{HOST}:{port},INNER://{HOST}:{inner_port}",
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "controller.listener.names": "CONTROLLER",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": f'{_LOGIN_MODULE} required user_{user}="{password}";',
        "log.dirs": folder / "data",
        **{f"{topic}.replication.factor": 1 for topic in internal_topics},
        "transaction.state.log.min.isr": 1,
        **{f"{topic}.num.partitions": 1 for topic in internal_topics},
        # A consumer of a new group reads at once.
        "group.initial.rebalance.delay.ms": 0,
    }
