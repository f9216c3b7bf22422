"""The compiled part: machines, processes and calls, as records in arrays."""
