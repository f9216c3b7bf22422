"""The wallet's verbs, and the key that a password is stretched to."""
