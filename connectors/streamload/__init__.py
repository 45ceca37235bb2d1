"""The library of the Doris and StarRocks sinks: last images, checks that values fit, load text, transport."""
