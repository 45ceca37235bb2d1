"""The state as executors on other machines have it: they ask the driver, and need no disk that both see.

    driver      `StateServer`: a port on the address that Spark's executors know, one for each run
    executors   `ServedStore`: the `Store` of source and sink; asks for documents and for what is new in a log, hands
                over files of staged rows, which are synced on the driver (and in the object store) before it answers

Who may ask is said by a token, and the driver by its certificate, made for one run; both travel with the tasks. What is
asked may be asked twice: a connection that breaks is recreated.
"""
