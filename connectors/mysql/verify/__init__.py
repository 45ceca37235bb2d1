"""Reads the current rows of captured tables, for `cdc verify`."""
