"""Programs written out in full for cvxpy and HiGHS: what everything else is held against."""
