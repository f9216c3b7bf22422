"""Commands that measure, calibrate and attack."""
