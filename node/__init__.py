"""The REST node of the wallet workbench lives in this package."""
