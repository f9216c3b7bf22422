"""What a REST node's process needs: settings, log lines, timing, workers, and the queue for Argon2id."""
