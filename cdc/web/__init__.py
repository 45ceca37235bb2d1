"""The web page and the REST API of `cdc serve`: a Starlette application over `cdc.serve.control.Control`.

Pages are `templates/`, `static/page.js` and `static/style.css`: templates escape all text, and the script brings a page
up to date. There is no build step, and nothing is loaded from elsewhere.
"""
