"""Sink for StarRocks 2.5 and later: upserts into primary key tables, loads through the transaction interface."""
