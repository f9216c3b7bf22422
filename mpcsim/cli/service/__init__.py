"""Commands that run and operate the service."""
