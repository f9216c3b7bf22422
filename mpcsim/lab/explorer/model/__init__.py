"""The explored session as data, without a widget."""
