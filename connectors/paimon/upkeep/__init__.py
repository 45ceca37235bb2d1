"""What keeps a table fast while it is written to: files are merged, manifests too, old snapshots expire."""
