"""Elasticsearch and OpenSearch as sinks: finished bulk bodies, sent in order with external versions."""
