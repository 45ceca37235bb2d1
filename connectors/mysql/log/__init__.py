"""The binary log as bytes: packets and files to verified, indexed chunks of events."""
