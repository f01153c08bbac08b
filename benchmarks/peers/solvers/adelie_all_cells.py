"""adelie's group lasso on its ``convex_relu`` matrix, with every cell and its constraints."""

from importlib.util import find_spec

import numpy as np
from benchmark_utils.cells import all_cells, too_many_cells
from benchmark_utils.networks import from_cells, nothing
from benchmark_utils.stopping import ToleranceSolver

MOST_CELLS = 5000
PATH_LENGTH, PATH_START = 20, 100.0
# with its defaults, or with the rows alone that bound a cell, adelie's subproblem fails: "exception in solve_zero()"
CONE_CONFIG = {"nnls_max_iters": 10_000_000, "pinball_max_iters": 10_000_000}


class Solver(ToleranceSolver):
    """``adelie.grpnet`` on all cells, one group per cell and sign, each in its own cone.

    It is warm-started down a path of 20 λ from 100 λ. Where it stops earlier, its last network is taken, with a note.
    """

    name = "adelie"
    requirements = ["pip::adelie"]

    def skip(self, X, y, lam, lam_max, loss, bias, output_bias):
        if find_spec("adelie") is None:
            return True, "adelie is not installed: pip install adelie (it asks for numpy < 2)"
        if output_bias != "none" or loss == "interpolation":
            return (
                True,
                "adelie's intercept is free, the problem's output bias is penalised; and it has losses only",
            )
        reason = too_many_cells(X, bias, MOST_CELLS)
        return reason is not None, reason

    def set_objective(self, X, y, lam, lam_max, loss, bias, output_bias):
        self.y, self.lam, self.loss = y, lam, loss
        self.lifted, self.patterns, _ = all_cells(X, bias)
        self.unit_rows = self.lifted / np.linalg.norm(self.lifted, axis=1)[:, None]

    def warm_up(self):
        import adelie

        adelie.logger.logger.disabled = True  # the note says it

    def run(self, tol):
        n_cells, width = len(self.patterns), self.lifted.shape[1]
        if tol >= 1:
            self.result = nothing(width)
            return
        import adelie as ad

        matrix = ad.matrix.convex_relu(np.asfortranarray(self.lifted), np.asfortranarray(self.patterns.T))
        constraints = [self._cone(ad, self.patterns[s]) for s in np.tile(np.arange(n_cells), 2)]
        # adelie's losses are half a mean of squares, and a mean of log(1 + exp(−yf)) with classes 0 and 1
        lam = self.lam if self.loss == "squared" else 2.0 * self.lam
        glm = ad.glm.gaussian(self.y) if self.loss == "squared" else ad.glm.binomial((self.y + 1.0) / 2.0)
        state = ad.grpnet(
            matrix,
            glm,
            constraints=constraints,
            groups=width * np.arange(2 * n_cells),
            penalty=np.ones(2 * n_cells),
            lmda_path=lam * np.geomspace(PATH_START, 1.0, PATH_LENGTH),
            intercept=False,
            early_exit=False,
            tol=tol,
            irls_tol=tol,
            progress_bar=False,
        )
        done = len(state.lmdas)
        if done == 0:
            self.result = {**self.result, "note": "adelie solved for no λ of its path"}
            return
        vectors = np.asarray(state.betas[-1].todense()).reshape(2 * n_cells, width)
        note = "" if done == PATH_LENGTH else f"adelie stopped its path at λ {done} of {PATH_LENGTH}"
        self.result = from_cells(vectors[:n_cells], vectors[n_cells:], note=note)

    def _cone(self, ad, pattern):
        rows = np.where(pattern, 1.0, -1.0)[:, None] * self.unit_rows
        n_rows = len(rows)
        return ad.constraint.linear(rows, np.zeros(n_rows), np.full(n_rows, np.inf), configs=CONE_CONFIG)
