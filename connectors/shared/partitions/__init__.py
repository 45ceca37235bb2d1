"""How tables of a lake are partitioned, as users write it."""
