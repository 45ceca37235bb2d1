"""Change logs as human-readable JSON lines: the format, and a source that reads them"""
