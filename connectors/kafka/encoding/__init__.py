"""Encode change blocks as messages: keys and values as JSON or Avro, straight from column buffers"""
