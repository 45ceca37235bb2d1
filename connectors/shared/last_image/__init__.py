"""The last image of each key among the changes to send."""
