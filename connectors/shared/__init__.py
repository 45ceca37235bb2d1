"""Rooms that connectors share, one noun each, open to all of them: connectors never import each other."""
