"""Maintenance of tables that are being written: merge files and manifests, expire old snapshots."""
