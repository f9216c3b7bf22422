"""SQLite files: transactions, and deleting so that nothing is left."""
