"""The connection to a Kafka cluster: the options that source and sink share, and the client settings made from them.

Keys after `properties.` are librdkafka's. Settings that only the Java client has are translated if there is an
equivalent, ignored if they do not matter here, and refused if ignoring them would change what the user asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from cdc.options import Block, Duration, Field, OptionError, Remark, SecretStr

PREFIX = "properties."

_RENAMED = {
    "max.request.size": "message.max.bytes",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
_MEANINGLESS = frozenset({
    "key.serializer", "value.serializer", "key.deserializer", "value.deserializer", "buffer.memory", "max.block.ms",
    "send.buffer.bytes", "receive.buffer.bytes", "metrics.num.samples", "metrics.recording.level", "partitioner.class",
})  # fmt: skip
"""Internal settings of the Java client, without an equivalent in librdkafka."""
_REFUSED = {
    "ssl.truststore.location": "write properties.ssl.ca.location: a PEM file of the authorities to trust",
    "ssl.truststore.password": "PEM files of authorities need no password",
    "ssl.keystore.type": "properties.ssl.keystore.location is a PKCS#12 file; convert others with keytool",
    "sasl.login.callback.handler.class": "classes of the Java client do not run here",
    "sasl.client.callback.handler.class": "classes of the Java client do not run here",
    "interceptor.classes": "classes of the Java client do not run here",
}
_JAAS = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


_LISTENER = re.compile(r"^(PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://", re.IGNORECASE)
"""A prefix such as `PLAINTEXT://`, which Java clients accept and ignore; security.protocol chooses the protocol."""


def _check_bootstrap(text: str) -> str:
    parts = [_LISTENER.sub("", part.strip()) for part in text.split(",")]
    for part in parts:
        host, _, port = part.rpartition(":")
        if not host or "/" in host or not port.isdigit() or not 0 < int(port) < 65_536:
            raise OptionError("must be host:port, several separated by commas", "such as kafka-1:9092,kafka-2:9092")
    return ",".join(parts)


class KafkaConnectionOptions(Block):
    """The options of the connection to a cluster, from which the options of source and sink inherit too."""

    connection_prefixes: ClassVar[dict[str, str]] = {
        PREFIX: "Client settings, such as `properties.security.protocol: sasl_ssl`: those of librdkafka; those of "
        "the Java client are translated if they have an equivalent.",
    }

    bootstrap_servers: Annotated[str, AfterValidator(_check_bootstrap)] = Field(
        alias="properties.bootstrap.servers",
        description="Addresses of brokers: `kafka-1:9092,kafka-2:9092`. One reachable broker is enough.",
    )
    sasl_password: SecretStr | None = Field(
        None, alias="properties.sasl.password", description="Password of `properties.sasl.username`."
    )
    sasl_jaas_config: SecretStr | None = Field(
        None,
        alias="properties.sasl.jaas.config",
        description="The Java client's JAAS configuration, from which user and password are read.",
    )
    oauth_client_secret: SecretStr | None = Field(
        None, alias="properties.sasl.oauthbearer.client.secret", description="Secret for SASL/OAUTHBEARER with OIDC."
    )
    ssl_key_password: SecretStr | None = Field(
        None, alias="properties.ssl.key.password", description="Password of the private key for TLS client login."
    )
    ssl_key_pem: SecretStr | None = Field(
        None, alias="properties.ssl.key.pem", description="The private key itself, in PEM, instead of a file."
    )
    ssl_keystore_password: SecretStr | None = Field(
        None, alias="properties.ssl.keystore.password", description="Password of a PKCS#12 key store."
    )
    retry_timeout_s: Duration = Field(
        600.0,
        alias="retry-timeout",
        ge=0,
        description="How long an unavailable cluster is retried before the run ends.",
    )

    def connection_problems(self, passed: Mapping[str, str]) -> Iterator[Remark]:
        """Report settings that would be misunderstood. `passed` has the options with the prefix."""
        for key in passed:
            name = key.removeprefix(PREFIX)
            if name in _REFUSED:
                yield Remark(key, "is a setting of the Java client that does not work here", _REFUSED[name])

    def cluster_settings(self, passed: Mapping[str, str]) -> KafkaSettings:
        """The frozen settings of the connection."""
        plain = {key.removeprefix(PREFIX): str(text) for key, text in passed.items()}
        secrets = {
            "sasl.password": self.sasl_password,
            "sasl.oauthbearer.client.secret": self.oauth_client_secret,
            "ssl.key.password": self.ssl_key_password,
            "ssl.key.pem": self.ssl_key_pem,
            "ssl.keystore.password": self.ssl_keystore_password,
        }
        known = {name: secret.get_secret_value() for name, secret in secrets.items() if secret is not None}
        if self.sasl_jaas_config is not None:
            known = {**jaas_login(self.sasl_jaas_config.get_secret_value()), **known}
        return KafkaSettings(self.bootstrap_servers, librdkafka_settings({**plain, **known}), self.retry_timeout_s)


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The address of a cluster and how it is reached. Frozen and picklable; its repr has no secrets.

    Attributes:
        bootstrap: `host:port`, several separated by commas.
        client: the settings, by librdkafka's names.
        retry_timeout_s: for how many seconds a cluster that is away is waited for.
    """

    bootstrap: str
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    retry_timeout_s: float = 600.0

    def config(self, **own: Any) -> dict[str, Any]:
        """The settings of one client: the pipeline's, overridden by `own`, whose names have underscores for dots.

        Names of callbacks keep their underscores.
        """
        fixed = {name if callable(value) else name.replace("_", "."): value for name, value in own.items()}
        return {**self.client, "bootstrap.servers": self.bootstrap, **fixed}


def librdkafka_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """The settings by librdkafka's names, from those of either client."""
    found = {_RENAMED.get(name, name): text for name, text in properties.items() if name not in _MEANINGLESS}
    if found.get("ssl.endpoint.identification.algorithm") == "":
        found["ssl.endpoint.identification.algorithm"] = "none"
    return found


def jaas_login(text: str) -> dict[str, str]:
    """The `sasl.username` and `sasl.password` in the Java client's `sasl.jaas.config`."""
    return {f"sasl.{name}": re.sub(r"\\(.)", r"\1", value) for name, value in _JAAS.findall(text)}
