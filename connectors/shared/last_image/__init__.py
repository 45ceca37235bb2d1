"""What is left of changes to send: the last image of each key."""
