"""Where servers are and how they are reached."""
