"""Numba kernels over raw log bytes. No kernel reads outside the bounds it is given; none raises: they return codes.

Compiled code is cached beside the source or in NUMBA_CACHE_DIR, keyed by CPU.
"""
