"""What a pipeline keeps over restarts.

`store` is what connectors see of it, `directory` the whole, `decisions` the commit log, `formats` its versions;
`durable` and `append_log` write files.
"""
