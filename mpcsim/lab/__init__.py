"""What people look at in Jupyter: the round explorer and the what-if panel."""
