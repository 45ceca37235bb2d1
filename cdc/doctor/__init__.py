"""`cdc doctor`: checks what a pipeline needs from its servers and this machine, before it runs"""
