"""Column types and their values: families of kinds, a common type, certain changes, casts. Pure."""
