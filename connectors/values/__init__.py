"""Rows written down in a file or in the pipeline itself: the smallest source and sink, and the folder to copy."""
