"""Options of the Schema Registry, for source and sink; named as in Flink's format `debezium-avro-confluent`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from cdc.options import Block, Field, FilePath, Line, OptionError, Remark, SecretStr

if TYPE_CHECKING:
    from cdc.retry import RetryPolicy
    from connectors.kafka.avro.registry import Registry
    from connectors.kafka.client import ErrorSide

URL, LOGIN, TOKEN = "schema-registry.url", "schema-registry.basic-auth.user-info", "schema-registry.bearer-auth.token"


def _check_urls(text: str) -> str:
    for url in registry_urls(text):
        parts = urlsplit(url)
        try:
            known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            known = False
        if not known or parts.query or parts.fragment:
            raise OptionError("must be http://host:port or https://host:port", "several separated by commas")
        if parts.username or parts.password:
            raise OptionError("must not hold a login", f"write {LOGIN}: user:password")
    if not registry_urls(text):
        raise OptionError("must name a Schema Registry", "such as http://registry:8081")
    return text


def registry_urls(text: str) -> tuple[str, ...]:
    """The addresses in a list separated by commas."""
    return tuple(part.strip().rstrip("/") for part in text.split(",") if part.strip())


class RegistryOptions(Block):
    """The options of the Schema Registry, from which the options of source and sink inherit too."""

    registry_url: Annotated[Line, AfterValidator(_check_urls)] | None = Field(
        None,
        alias=URL,
        description="URL of the Schema Registry for Avro messages, below which `/subjects` answers, such as "
        "`http://registry:8081` (Apicurio: `http://registry:8080/apis/ccompat/v7`); several URLs of "
        "one registry are separated by commas.",
    )
    registry_login: SecretStr | None = Field(
        None, alias=LOGIN, description="Credentials for the registry, `user:password`."
    )
    registry_token: SecretStr | None = Field(
        None, alias=TOKEN, description="Bearer token for the registry, instead of user and password."
    )
    registry_ca: FilePath | None = Field(
        None,
        alias="schema-registry.ssl.ca.location",
        description="PEM file with the trusted CA certificates; default: the system's.",
    )
    registry_certificate: FilePath | None = Field(
        None, alias="schema-registry.ssl.certificate.location", description="PEM file of the client's certificate."
    )
    registry_key: FilePath | None = Field(
        None,
        alias="schema-registry.ssl.key.location",
        description="PEM file of the client's private key, if it is not in the certificate's file.",
    )

    def registry(self, policy: RetryPolicy, side: ErrorSide) -> Registry | None:
        """The registry; None when there is none. Connects lazily."""
        if self.registry_url is None:
            return None
        from connectors.kafka.avro.registry import Registry, RegistrySettings

        login, token = (
            "" if secret is None else secret.get_secret_value() for secret in (self.registry_login, self.registry_token)
        )
        urls = registry_urls(self.registry_url)
        settings = RegistrySettings(
            urls, login, token, self.registry_ca, self.registry_certificate, self.registry_key
        )  # fmt: skip
        return Registry(settings, policy, side)

    def registry_problems(self, value_format: str, *, needed: bool) -> Iterator[Remark]:
        """Report options that the format of the values needs, or that have no effect with it."""
        if self.registry_url is None and "avro" in value_format:
            yield Remark(URL, "is missing", f"value.format: {value_format} needs the registry of its schemas")
        if self.registry_url is not None and not needed:
            yield Remark(URL, f"has no effect with value.format: {value_format}", "remove the key")
        if self.registry_login is not None and self.registry_token is not None:
            yield Remark(TOKEN, f"stands beside {LOGIN}", "a registry takes one of them")
        token = "" if self.registry_token is None else self.registry_token.get_secret_value()
        if not (token.isascii() and token.isprintable()) or " " in token:
            yield Remark(TOKEN, "holds a blank, a line's end or another character that no token has", "remove it")
        if self.registry_login is not None and ":" not in self.registry_login.get_secret_value():
            yield Remark(LOGIN, "has no colon", "write user:password")
        for key, value in self._registry_keys():
            if value is not None and self.registry_url is None:
                yield Remark(key, f"has no effect without {URL}", f"write {URL}, or remove the key")
        if self.registry_key is not None and self.registry_certificate is None:
            hint = "write schema-registry.ssl.certificate.location too"
            yield Remark("schema-registry.ssl.key.location", "has no certificate", hint)

    def _registry_keys(self) -> Iterator[tuple[str, object]]:
        yield LOGIN, self.registry_login
        yield TOKEN, self.registry_token
        for name in ("ca", "certificate", "key"):
            yield f"schema-registry.ssl.{name}.location", getattr(self, f"registry_{name}")
