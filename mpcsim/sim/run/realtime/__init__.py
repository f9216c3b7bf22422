"""Runs in real time, and the clock and event loop of virtual time."""
