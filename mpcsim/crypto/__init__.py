"""Cryptographic building blocks: pure functions, no parties and no rounds."""
