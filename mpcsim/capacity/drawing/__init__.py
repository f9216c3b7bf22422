"""Deployment as a picture, and in words."""
