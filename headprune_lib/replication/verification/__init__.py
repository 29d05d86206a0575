"""Whether a stored result is found again: on the weights it was measured on, or on others."""
