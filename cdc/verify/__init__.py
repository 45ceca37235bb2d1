"""`cdc verify`: whether the tables of a pipeline's sink hold what those of its source do"""
