"""Code that connectors share, one package per subject. All connectors may use it: they never import each other."""
