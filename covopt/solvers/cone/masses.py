"""Steps of Frank–Wolfe that move mass between a few atoms, with the inverse covariance kept up to date.

The point is K̄ = Σ m_j a_j a_jᵀ + K₀ with K̄⁻¹ and Λ = K̄⁻¹Y; a vertex of the scaled simplex is Σm · a aᵀ. Line searches
are exact. With K₀ = 0 they are closed forms from Sherman and Morrison: with e = aᵀK̄⁻¹a and q = ‖Λᵀa‖,

    Tr Yᵀ(K̄ + θ a aᵀ)⁻¹Y = g − θ q²/(1 + θ e),      g = Tr YᵀK̄⁻¹Y.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

from covopt.problems.cone import ConeProblem

REFRESH = 64  # rank-one updates between two fresh factorisations
JITTERS = (0.0, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10)


def pencil_search(
    matrix: np.ndarray, direction: np.ndarray, targets: np.ndarray, slope: float, limit: float
) -> float:
    """Minimise slope·γ + Tr Yᵀ(M + γD)⁻¹Y over 0 ≤ γ ≤ limit, M positive definite and M + γD on the way.

    Examples
    --------
    >>> import numpy as np
    >>> round(pencil_search(np.eye(1), np.eye(1), np.array([[2.0]]), 1.0, 10.0), 9)
    1.0
    """
    values, vectors = eigh(direction, matrix)
    weights = np.square(vectors.T @ targets).sum(axis=1)
    lowest = float(values[0])
    high = min(limit, -1.0 / lowest * (1.0 - 1e-12)) if lowest < 0 else limit
    low = 0.0

    def derivative(step: float) -> float:
        return slope - float((weights * values / (1.0 + step * values) ** 2).sum())

    if not np.isfinite(high):
        high = 1.0
        while derivative(high) < 0.0 and high < 1e18:
            high *= 4.0
    if derivative(high) <= 0.0:
        return high
    for _ in range(80):
        middle = 0.5 * (low + high)
        if derivative(middle) > 0.0:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)


class MassState:
    """Masses on atoms, the inverse of their covariance and the dual point that goes with it.

    Parameters
    ----------
    problem : ConeProblem
    neurons : ndarray of shape (m, r)
        Unit.
    masses : ndarray of shape (m,)
        Nonnegative; K(m) + K₀ must be positive definite.

    Attributes
    ----------
    jitter : float
        Largest multiple of the identity, relative to the mean diagonal, that a factorisation needed (0: none).
    """

    def __init__(self, problem: ConeProblem, neurons: np.ndarray, masses: np.ndarray):
        self.problem = problem
        self.neurons = neurons
        self.masses = np.asarray(masses, dtype=float)
        self.atoms = problem.atoms(neurons)
        self.jitter = 0.0
        self.refresh()

    def refresh(self) -> None:
        """Recompute everything from the masses."""
        self._age = 0
        matrix = self.problem.covariance(self.atoms, self.masses)
        size = float(np.trace(matrix)) / len(matrix)
        for jitter in JITTERS:
            try:
                factor = cholesky(matrix + jitter * size * np.eye(len(matrix)), lower=True)
            except LinAlgError:
                continue
            self.jitter = max(self.jitter, jitter)
            break
        else:
            raise LinAlgError("the covariance of the atoms is singular")
        root = solve_triangular(factor, np.eye(len(matrix)), lower=True)
        self.inverse = root.T @ root
        self._derive()

    def _derive(self) -> None:
        self.dual = self.inverse @ self.problem.inner_targets
        self.fraction = float(np.vdot(self.problem.inner_targets, self.dual))

    @property
    def value(self) -> float:
        """F(m)."""
        return float(self.masses.sum()) + self.fraction

    def slopes(self) -> np.ndarray:
        """‖Λᵀa_j‖² of every atom."""
        return np.square(self.atoms @ self.dual).sum(axis=1)

    def insert(self, neuron: np.ndarray) -> int:
        """Return the index of an atom, a new one of mass zero where it is not there yet."""
        if len(self.neurons):
            distance = np.abs(self.neurons - neuron).max(axis=1)
            nearest = int(distance.argmin())
            if distance[nearest] <= 1e-11:
                return nearest
        self.neurons = np.concatenate([self.neurons, neuron[None]])
        self.masses = np.append(self.masses, 0.0)
        self.atoms = np.concatenate([self.atoms, self.problem.atoms(neuron[None])])
        return len(self.masses) - 1

    def rescale(self) -> None:
        """Multiply all masses by the best number."""
        total = float(self.masses.sum())
        if total == 0.0:
            return
        if self.problem.is_homogeneous:
            if not self.fraction > 0.0:  # updates have made the inverse indefinite
                self.refresh()
            if not self.fraction > 0.0:
                raise LinAlgError("the covariance of the atoms is indefinite by rounding")
            factor = np.sqrt(self.fraction / total)
            self.masses *= factor
            self.inverse /= factor
            self._derive()
            return
        # (1 + γ)K + K₀ with γ ≥ −1/2, as often as it takes
        full = self.problem.covariance(self.atoms, self.masses)
        change = full - self.problem.base
        step = pencil_search(full - 0.5 * change, change, self.problem.inner_targets, total, np.inf)
        self.masses *= 0.5 + step
        self.refresh()

    def add(self, index: int) -> None:
        """Give an atom the mass that is best with all others fixed: δ = (‖Λᵀa‖ − 1)/e."""
        atom = self.atoms[index]
        pull = self.inverse @ atom
        slope = float(np.linalg.norm(atom @ self.dual))
        if slope > 1.0:
            gained = (slope - 1.0) / float(atom @ pull)
            self.masses[index] += gained
            self._update(pull, atom, gained)

    def toward(self, index: int) -> None:
        """Vanilla step: shrink all masses and give what they lose to one atom, Σm fixed, exact line search."""
        total = float(self.masses.sum())
        if total == 0.0:
            self.add(index)
            return
        atom = self.atoms[index]
        if self.problem.is_homogeneous:
            pull = self.inverse @ atom
            if not atom @ pull > 0.0:
                self.refresh()
                pull = self.inverse @ atom
            if not atom @ pull > 0.0:
                raise LinAlgError("the covariance of the atoms is indefinite by rounding")
            e = float(atom @ pull) * total
            q2 = float(np.square(atom @ self.dual).sum()) * total
            spread = max(self.fraction * e - q2, 0.0)
            if q2 <= self.fraction:
                return
            ratio = (np.sqrt(1.0 + e * (q2 - self.fraction) / spread) - 1.0) / e if spread > 0 else np.inf
            ratio = min(ratio, 1e12)
            shrink = 1.0 / (1.0 + ratio)
            self.masses *= shrink
            self.masses[index] += ratio * shrink * total
            self.inverse /= shrink
            self._update(pull / shrink, atom, ratio * shrink * total)
            return
        full = self.problem.covariance(self.atoms, self.masses)
        change = total * np.outer(atom, atom) - (full - self.problem.base)
        step = pencil_search(full, change, self.problem.inner_targets, 0.0, 1.0)
        self.masses *= 1.0 - step
        self.masses[index] += step * total
        self.refresh()

    def exchange(self, gains: int, loses: int) -> None:
        """Pairwise step: move mass from one atom to another, exact line search in closed form."""
        a, b = self.atoms[gains], self.atoms[loses]
        pull_a, pull_b = self.inverse @ a, self.inverse @ b
        e_a, e_b, e_ab = float(a @ pull_a), float(b @ pull_b), float(a @ pull_b)
        q_a, q_b = a @ self.dual, b @ self.dual
        aa, bb, ab = float(q_a @ q_a), float(q_b @ q_b), float(q_a @ q_b)
        if aa <= bb:
            return
        # g(δ) = g − (αδ + βδ²)/(−1 + κδ + ηδ²)
        alpha, beta = bb - aa, e_b * aa + e_a * bb - 2.0 * e_ab * ab
        kappa, eta = e_b - e_a, e_a * e_b - e_ab**2
        quadratic = beta * kappa - alpha * eta
        # beta * beta and not beta**2, which raises where the inverse has lost its digits and beta is astronomical
        root = np.sqrt(max(beta * beta + alpha * quadratic, 0.0))
        # the smallest positive root of quadratic·δ² − 2βδ − α
        step = -alpha / (beta + root) if beta + root > 0 else np.inf
        limit = float(self.masses[loses])
        if not step < limit:
            step = limit
        self.masses[gains] += step
        self.masses[loses] = limit - step
        self._update(pull_a, a, step)
        self._update(self.inverse @ b, b, -step)

    def _update(self, pull: np.ndarray, atom: np.ndarray, mass: float) -> None:
        """K̄ ← K̄ + mass · a aᵀ, by Sherman and Morrison; ``pull`` is K̄⁻¹a."""
        self._age += 1
        pivot = 1.0 + mass * float(atom @ pull)
        if self._age >= REFRESH or pivot < 1e-6:
            self.refresh()
            return
        self.inverse -= np.outer(pull, pull) * (mass / pivot)
        self._derive()

    def forget_empty(self) -> None:
        """Drop atoms without mass."""
        kept = self.masses > 0
        self.neurons, self.masses, self.atoms = self.neurons[kept], self.masses[kept], self.atoms[kept]

    def complete(self) -> None:
        """Drop atoms without mass, and one whose insertion was broken off."""
        count = min(len(self.neurons), len(self.masses), len(self.atoms))
        self.neurons, self.masses, self.atoms = self.neurons[:count], self.masses[:count], self.atoms[:count]
        self.forget_empty()
