"""Rows written in a file or in the pipeline itself: the smallest source and sink, a template for new connectors."""
