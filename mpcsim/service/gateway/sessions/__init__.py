"""Open sessions, and the messages carried in them."""
