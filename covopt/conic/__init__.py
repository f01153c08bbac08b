"""Programs written out in full for cvxpy and HiGHS: references for the other solvers."""
