"""`cdc init`: creates a pipeline file for a server"""
