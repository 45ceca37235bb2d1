"""The web page and the REST API of `cdc serve`: a Starlette application over `cdc.serve.control.Control`.

Pages are made here, whole, by functions that escape all text; a script of a hundred lines brings them up to date. There
is no build step, and nothing is loaded from elsewhere.
"""
