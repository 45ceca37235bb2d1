"""`cdc doctor`: what a pipeline needs of its servers and of this machine, looked at before it is missed"""
