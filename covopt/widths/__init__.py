"""How many neurons are needed: bounds for a table, and the rank of a pair of covariances."""
