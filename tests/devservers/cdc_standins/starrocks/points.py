"""Where faults can be armed. Every point takes `match` by `label`, `table`, `db`; what `refuse` answers is said there.

At a point of the front end or of the back end, `refuse` answers as that end does when it throws, with `message`
(back end: `status`, default INTERNAL_ERROR). `late` at `publish.wait` answers that publishing takes too long, while it
goes on and the rows become visible.
"""

from __future__ import annotations

OPERATIONS = ("begin", "load", "prepare", "commit", "rollback")

POINTS: dict[str, str] = {
    "fe.load": "the front end got a plain load, before it redirects",
    "be.load": "the back end got a plain load, nothing happened yet",
    "be.load.body": "within the body of a load, plain or not",
    "be.load.done": "a plain load took effect, before the answer",
    "fe.state": "a question for a label's state",
    "sql": "a statement (`like`: part of it)",
    "sql.done": "the statement took effect, before the answer",
    "publish": "before rows become visible, in the publishing thread",
    "publish.wait": "a commit waits for its rows to become visible (`late`)",
    "ddl": "the rows have a change that the catalog does not have yet (kill, slow, hold)",
    "alter": "a schema change that waited is about to finish (`refuse`: it is cancelled with `message`)",
    **{f"fe.txn.{name}": f"the front end got `{name}`, nothing happened yet" for name in OPERATIONS},
    **{f"be.txn.{name}": f"the back end got `{name}`, nothing happened yet" for name in OPERATIONS},
    **{f"be.txn.{name}.done": f"`{name}` took effect on the back end, before the answer" for name in OPERATIONS},
    "fe.txn.commit.done": "the front end committed, before the answer",
    "fe.txn.rollback.done": "the front end rolled back, before the answer",
}
"""The points by name, with what has happened there."""

EXTRA_ACTIONS = ("late",)
