"""Messages to topics: a transaction per task with a fence in it, in the order of the log"""
