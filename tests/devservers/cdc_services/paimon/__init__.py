"""Paimon's own Java library, as the reader that judges what the sink writes: one jar that Maven brings."""
