"""A wallet backend under test: how it is called, and what its answers must satisfy."""
