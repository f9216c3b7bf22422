"""The REST node's routes, what protects them, and their documents."""
