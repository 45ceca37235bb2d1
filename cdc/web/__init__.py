"""The web page and the REST API of `cdc serve`: a Starlette application on top of `cdc.serve.control.Control`.

Pages consist of `templates/`, `static/page.js` and `static/style.css`: templates escape all text, and the script
refreshes pages. There is no build step, and nothing is loaded from other hosts.
"""
