"""Sink for Elasticsearch and OpenSearch: staged bulk bodies, sent in order with external versions."""
