"""Leaves out of the log what chunks hold already, or will hold."""
