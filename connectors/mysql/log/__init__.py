"""The binary log as bytes: packets and files to verified, indexed buffers of events."""
