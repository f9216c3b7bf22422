"""A deployment as a picture, and in words."""
