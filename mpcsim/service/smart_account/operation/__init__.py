"""A UserOperation: its fields, digest, gas, limits, sponsorship and receipt."""
