"""Results of a run: what is recorded, the statistics of it, conclusions, and how they are shown."""
