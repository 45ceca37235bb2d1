"""Addresses of servers and how to reach them."""
