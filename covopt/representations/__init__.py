"""The first reformulation of FL22: training over the hidden representations Z_1 … Z_L."""
