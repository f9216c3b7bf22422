"""One MPC node: its identity, its store, what it does with its key shares, and its log of key events."""
