"""One run of a protocol: scenarios, deviations, checks."""
