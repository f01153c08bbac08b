"""The restricted master: columns that move in their faces, and Newton steps of one interior-point method."""
