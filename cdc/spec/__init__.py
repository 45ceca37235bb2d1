"""The pipeline file: strict YAML reader, JSON Schema and semantic checks, typed models."""
