"""Exact pricing of one output in any dimension, by the table of faces that several outputs take."""

import numpy as np

from covopt.oracles.base import Pricing
from covopt.oracles.faces import MOST_FACED, FaceOracle
from covopt.oracles.vector_faces import VectorFaceOracle


class TableOracle:
    def __init__(self, rows):
        self.rows, self.table = rows, VectorFaceOracle(rows)

    def price(self, dual, *, threshold=0.0, max_neurons=None, complete=False):
        found = self.table.price(
            dual[:, None], threshold=threshold, max_neurons=max_neurons, complete=complete
        )
        values = np.maximum(found.neurons @ self.rows.T, 0.0) @ dual
        return Pricing(found.neurons, values, found.upper_bound, found.exact)


def face_oracle(rows):
    return FaceOracle(rows) if rows.shape[1] <= MOST_FACED else TableOracle(rows)
