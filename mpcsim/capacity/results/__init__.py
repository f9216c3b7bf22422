"""What came of a run: what is kept, what is asked, and how it is told."""
