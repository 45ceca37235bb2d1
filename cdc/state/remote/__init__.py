"""State in an object store: a log of writes that one run appends to, a lease on it, and a working copy on local disk.

    <url>/lock              the lease: who runs, and that it lives (`lease`)
    <url>/log/<number>      one durable step, put only where nothing is yet (`entry`, `writer`)
    <url>/base/<number>     all documents after the step of that number, so that older steps can go (`compact`)
    <url>/bulk/<number>/... staged rows of the run that opened the log with the step of that number
    <url>/status.json       the status document, for people; no run reads it

A step is done once its object is there. The next run puts its own first step at the next number, so one that was
paused and thinks that it still runs finds its number taken, and can put nothing any more, whatever the clocks say.
"""
