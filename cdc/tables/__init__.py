"""The life of a table between a source and a sink: its states, what happens to it, and what each of that leads to."""
