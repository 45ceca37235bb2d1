"""Serves the state to executors on other machines through the driver, so that no shared disk is needed.

    driver      `StateServer`: one port per run, on the address that Spark's executors know
    executors   `ServedStore`: the `Store` of source and sink; requests documents and new entries of logs, and uploads
                files of staged rows, which are synced on the driver (and in the object store) before the response

Executors authenticate with a token, the driver with a certificate; both are created per run and sent with the tasks.
Requests are repeatable: a broken connection is opened again.
"""
