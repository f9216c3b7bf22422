"""Tests of the project; see README.md for which test goes where."""
