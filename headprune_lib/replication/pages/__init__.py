"""What pages show: tables, plots, numbers, and the notebooks themselves."""
