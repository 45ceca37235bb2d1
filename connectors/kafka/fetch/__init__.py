"""Fetch messages from the brokers as columns, with librdkafka's functions and a kernel, without an object for each."""
