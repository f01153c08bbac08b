"""Column generation for losses."""
