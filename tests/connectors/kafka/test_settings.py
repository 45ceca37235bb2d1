"""Settings of the connection: those of both clients, secrets, and what is refused."""

from __future__ import annotations

import pickle

import pytest
from pydantic import ValidationError
from together import together

from connectors.kafka.settings import KafkaConnectionOptions, KafkaSettings, jaas_login, librdkafka_settings


def options(**properties: object) -> KafkaConnectionOptions:
    return KafkaConnectionOptions.model_validate({"properties.bootstrap.servers": "k1:9092, k2:9093", **properties})


def test_settings_of_the_java_client_are_translated_and_its_own_machinery_is_left_out() -> None:
    given = {
        "max.request.size": "2000000", "acks": "all", "key.serializer": "org.example.Serializer",
        "ssl.endpoint.identification.algorithm": "", "max.partition.fetch.bytes": "65536",
    }  # fmt: skip
    assert librdkafka_settings(given) == {
        "message.max.bytes": "2000000", "acks": "all", "ssl.endpoint.identification.algorithm": "none",
        "fetch.message.max.bytes": "65536",
    }  # fmt: skip


def test_user_and_password_come_out_of_jaas() -> None:
    text = r'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p\"w;d" ;'
    assert jaas_login(text) == {"sasl.username": "u", "sasl.password": 'p"w;d'}
    made = options(**{"properties.sasl.jaas.config": text}).cluster_settings({"properties.sasl.mechanism": "PLAIN"})
    assert made.config() == {
        "bootstrap.servers": "k1:9092,k2:9093", "sasl.mechanism": "PLAIN", "sasl.username": "u",
        "sasl.password": 'p"w;d',
    }  # fmt: skip


def test_no_secret_is_in_a_text() -> None:
    given = options(**{"properties.sasl.password": "hush-1", "properties.ssl.key.password": "hush-2"})
    made = given.cluster_settings({})
    assert made.config()["sasl.password"] == "hush-1"
    assert "hush" not in repr(given) + str(given) + repr(made) + given.model_dump_json()


def test_what_only_java_has_is_refused_with_what_to_write() -> None:
    passed = {"properties.ssl.truststore.location": "/t.jks", "properties.acks": "all"}
    (remark,) = options().connection_problems(passed)
    assert (remark.key, "properties.ssl.ca.location" in remark.hint) == ("properties.ssl.truststore.location", True)


@together("text", ["k1", "http://k1:9092", "k1:0", "k1:99999", "", "k1:9092,,k2:9092"])
def test_an_address_has_a_host_and_a_port(text: str) -> None:
    with pytest.raises(ValidationError, match="must be host:port"):
        KafkaConnectionOptions.model_validate({"properties.bootstrap.servers": text})


def test_an_address_may_begin_with_the_protocol_as_java_clients_have_it() -> None:
    made = KafkaConnectionOptions.model_validate(
        {"properties.bootstrap.servers": "PLAINTEXT://k1:9092,SASL_SSL://k2:9093"}
    )
    assert made.bootstrap_servers == "k1:9092,k2:9093"


def test_own_settings_win_and_settings_travel() -> None:
    made = pickle.loads(pickle.dumps(KafkaSettings("k:1", {"linger.ms": "5", "acks": "1"})))
    assert made.config(linger_ms=50, acks="all") == {"bootstrap.servers": "k:1", "linger.ms": 50, "acks": "all"}
