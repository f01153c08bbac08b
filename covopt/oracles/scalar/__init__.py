"""Kernels of the face oracle for one output, by dimension."""
