"""Code shared by the solvers of this benchmark."""
