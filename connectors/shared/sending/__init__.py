"""Sends blocks to open loads: bounded, in parallel, in order per table."""
