"""The state of a pipeline: the files that outlive a run.

`directory` is the state directory, `store` the part that connectors use, `decisions` the commit log; `durable` and
`append_log` write files.
"""
