"""Readers of HAR files of browsers and proxies, and of curl's timings."""
