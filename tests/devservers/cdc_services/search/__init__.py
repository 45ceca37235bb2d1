"""Real OpenSearch and Elasticsearch servers for trials and tests, from Maven's central registry."""
