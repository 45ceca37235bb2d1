"""Real servers for tests and try-outs: install them without root, start them, end them.

`python -m cdc_services install|list` is what `make services` calls; `tests/servers.py` and
`tests/kafka_servers.py` start what was installed.
Nothing in a pipeline run imports this package.
"""
