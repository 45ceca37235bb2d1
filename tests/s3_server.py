"""An S3 server of this process (moto), and buckets in it."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

_REGION = "eu-central-1"
_numbers = itertools.count(1)
"""Of buckets: the servers of one process share them."""


@dataclass
class S3Server:
    """Listens on this machine alone. `environment` is what a process needs to reach it."""

    endpoint: str
    environment: dict[str, str] = field(default_factory=dict)

    def new_bucket(self) -> str:
        """The URL of an empty bucket."""
        name = f"bucket-{next(_numbers)}"
        where = {"LocationConstraint": _REGION}
        self.client().create_bucket(Bucket=name, CreateBucketConfiguration=where)
        return f"s3://{name}"

    def client(self):  # type: ignore[no-untyped-def]
        """A client that the tool does not use."""
        import boto3

        return boto3.client(
            "s3", endpoint_url=self.endpoint, region_name=_REGION, aws_access_key_id="key", aws_secret_access_key="word"
        )


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """While the block runs the server does, and the environment of this process names it."""
    from moto.server import ThreadedMotoServer  # a quarter of a second in each process that collects tests

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        endpoint = f"http://127.0.0.1:{port}"
        environment = {
            "AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "word",
            "AWS_REGION": _REGION,
        }  # fmt: skip
        with patch.dict(os.environ, environment):
            yield S3Server(endpoint, environment=environment)
    finally:
        server.stop()
