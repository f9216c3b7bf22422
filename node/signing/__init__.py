"""Sessions of the caller's party: opening the vault, signing, presigning."""
