"""Problems: primal value, dual value, and how to scale a dual point into feasibility."""
