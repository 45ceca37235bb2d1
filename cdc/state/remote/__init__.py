"""State in an object store: a log of writes by one run at a time, a lease, and a working copy on local disk.

    <url>/lock              the lease: the running process and its heartbeat (`lease`)
    <url>/log/<number>      one durable step, created only if the object does not exist (`entry`, `writer`)
    <url>/base/<number>     all documents after the step of that number, so that older steps can be removed (`compact`)
    <url>/bulk/<number>/... staged rows of the run that opened the log with the step of that number
    <url>/status.json       the status document, for people; no run reads it

A step is done once its object exists. A new run creates its first step at the next number. A run that was paused and
believes it still holds the state finds that number taken and cannot write any more, regardless of clocks.
"""
