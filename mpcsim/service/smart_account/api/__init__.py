"""The HTTP interface of smart accounts."""
