"""Branch and bound on boxes of directions: certified bounds on the gauge, whatever the scales of the rows."""
