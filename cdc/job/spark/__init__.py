"""Spark and Java: sessions for one run or for many, their processes, and the cluster they run on."""
