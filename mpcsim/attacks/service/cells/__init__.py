"""The cells of the compromise matrix, one file for each set of corrupt parties."""
