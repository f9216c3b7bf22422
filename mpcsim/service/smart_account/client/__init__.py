"""What a wallet backend does with smart accounts, and tables and figures of it."""
