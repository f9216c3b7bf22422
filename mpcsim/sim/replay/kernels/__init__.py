"""Compiled loops over arrays of a recorded run."""
