"""The contents of the book's pages: tables, plots, numbers, and the notebooks themselves."""
