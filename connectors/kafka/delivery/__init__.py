"""Deliver messages to topics in the order of the log: each task in one transaction, which also moves its fence"""
