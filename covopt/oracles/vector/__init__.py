"""Faces and their maxima for vector outputs: the lattice of faces, kernels, ties, supports."""
