"""The files of a pipeline that outlive a run.

`store` is what connectors see of it, `directory` the whole, `decisions` the commit log, `formats` its versions;
`durable` and `append_log` write files.
"""
