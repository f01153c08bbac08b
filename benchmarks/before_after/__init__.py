"""What a change costs: the same tasks, by the public names alone, in two checkouts, turn by turn."""
