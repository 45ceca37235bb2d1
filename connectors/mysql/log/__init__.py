"""The binary log as bytes: packets and files become verified, indexed buffers of events."""
