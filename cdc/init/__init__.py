"""`cdc init`: a pipeline file from what is found on a server"""
