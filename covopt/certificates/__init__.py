"""Certificates: recomputed from the raw data after a solver ends."""
