"""Rows and values as tables of a lake have them."""
