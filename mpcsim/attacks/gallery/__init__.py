"""The attacks of the gallery, one file for each part of the protocols."""
