"""Rooms that sinks share, one noun each: see the table in `tests/test_layout.py` for who may use which."""
