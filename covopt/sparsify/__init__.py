"""Fewer neurons, same outputs on the data: merging, Carathéodory, least output weights. One layer at a time."""
