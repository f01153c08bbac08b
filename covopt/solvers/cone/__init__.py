"""Frank–Wolfe over the covariance cone, and membership in it."""
