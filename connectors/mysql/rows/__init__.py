"""Converts row events to Arrow columns: table maps, column plans, character sets, JSON."""
