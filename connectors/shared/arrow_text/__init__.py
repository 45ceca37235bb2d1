"""Values of Arrow columns as text, column by column, for sinks that send text."""
