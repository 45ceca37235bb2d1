"""What the Doris and StarRocks sinks share: last images, checks that values fit, load text, transport. No sink itself."""
