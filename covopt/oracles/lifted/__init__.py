"""The semidefinite lift: cones, solvers, splits, and the certificate of a gauge."""
