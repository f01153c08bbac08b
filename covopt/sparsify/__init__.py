"""Fewer neurons with the same outputs on the data, layer by layer: merging, Carathéodory, least output weights."""
