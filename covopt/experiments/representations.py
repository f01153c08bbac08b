r"""FL22's first reformulation: the loss as a function of the representations instead of the weights (§3.1, Prop 1).

With samples in rows, A₀ = X̃ and A_ℓ = Z_ℓᵠ = [σ(Z_ℓ), β1], a network is Z_ℓ = A_{ℓ−1} W_ℓᵀ and

.. math::
    \mathcal L^r(Z_1, \dots, Z_L) = C(Z_L) + \lambda \sum_{\ell=1}^L \|A_{\ell-1}^+ Z_\ell\|_F^2,
    \qquad \operatorname{Im} Z_\ell \subset \operatorname{Im} A_{\ell-1}.

Φ maps weights to representations, Ψ representations to the weights of least norm that have them,
:math:`W_\ell^T = A_{\ell-1}^+ Z_\ell`.
"""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from covopt.checks.validation import check_bias, check_choice, check_number, check_positive
from covopt.data.tabular import check_finite, to_matrix
from covopt.depth.layers import Layout
from covopt.errors import InputError, PrecisionWarning
from covopt.exact.rank import NEAR
from covopt.experiments.images import LayerImage, as_matrices
from covopt.losses import Interpolation, Loss, make_loss
from covopt.network.deep import DeepReLUNetwork

OUTPUT_BIASES = ("penalized", "none")


class RepresentationProblem:
    r"""𝓛ʳ on given data, its derivatives, and the maps Φ and Ψ between weights and representations.

    Parameters
    ----------
    X : array_like of shape (N, d)
    Y : array_like of shape (N,) or (N, k), optional
        Targets. Without them there is no C, and only norms, maps and forces are available.
    lam : float, optional
        λ > 0. None means interpolation: C is 0 at Z_L = Y and infinite elsewhere, λ is 1.
    loss : str or Loss
        A loss of :mod:`covopt.losses`; C is its mean over the samples.
    bias : float
        β; with β > 0 every A_ℓ has a last column β1, and every W_ℓ one more column.
    output_bias : {"penalized", "none"}
        Whether A_{L−1} has that column, too, as in FL22.
    slope : float
        a of σ_a(t) = max(t, 0) + a·min(t, 0): 0 is the ReLU, 1 a linear network.
    tikhonov : float
        ε ≥ 0. If positive, :math:`(A A^T + \varepsilon I)^{-1}` replaces :math:`(A A^T)^+` everywhere: 𝓛ʳ is then
        finite and differentiable without the constraint, at most the true one on it, and Ψ is a ridge regression.
    rank_tol : float, optional
        Singular values of A_ℓ up to this fraction of the largest count as zero; by default the rank is cut at the
        widest gap (see :class:`LayerImage`).
    sample_weight : array_like of shape (N,), optional

    Raises
    ------
    InputError
        For invalid data, targets or options.

    Examples
    --------
    >>> problem = RepresentationProblem([[1.0], [-1.0]], [1.0, 1.0], lam=0.1, bias=0.0)
    >>> W = [np.array([[1.0], [-1.0]]), np.array([[1.0, 1.0]])]
    >>> Z = problem.to_representations(W)
    >>> [z.tolist() for z in Z]
    [[[1.0, -1.0], [-1.0, 1.0]], [[1.0], [1.0]]]
    >>> round(problem.objective(Z), 9), round(problem.weight_objective(W), 9)
    (0.4, 0.4)
    """

    def __init__(
        self,
        X: Any,
        Y: Any = None,
        *,
        lam: float | None = None,
        loss: str | Loss = "squared",
        bias: float = 1.0,
        output_bias: str = "penalized",
        slope: float = 0.0,
        tikhonov: float = 0.0,
        rank_tol: float | None = None,
        sample_weight: Any = None,
    ) -> None:
        inputs = to_matrix("X", X)[0]
        self.X = inputs[:, None] if inputs.ndim == 1 else inputs
        if not len(self.X):
            raise InputError("X must be a table (N, d) with at least one row.")
        check_finite("X", self.X, None)
        self.bias = check_bias(bias)
        self.output_bias = check_choice("output_bias", output_bias, OUTPUT_BIASES)
        self.slope = check_number(
            "slope", slope, "a number in (-1, 1] (0 is the ReLU)", lambda a: -1 < a <= 1
        )
        self.tikhonov = check_number(
            "tikhonov", tikhonov, "a finite number, 0 (none) or positive", lambda a: 0 <= a < np.inf
        )
        self.rank_tol = rank_tol
        if rank_tol is not None:
            check_number("rank_tol", rank_tol, "None or a number in [0, 1)", lambda a: 0 <= a < 1)
        if Y is None and lam is not None:
            raise InputError("lam weighs the norm against the loss on targets; give Y too, or leave lam out.")
        if lam is None and (loss != "squared" or sample_weight is not None):
            raise InputError("a loss and sample_weight need lam; without it the targets are interpolated.")
        self.lam = 1.0 if lam is None else check_positive("lam", lam)
        self.loss: Loss | None = None
        if Y is not None:
            self.loss = Interpolation() if lam is None else make_loss(loss)
            targets = self.loss.encode_targets(Y, sample_weight)
            if len(targets) != len(self.X):
                raise InputError(
                    f"Y has {len(targets)} rows but X has {len(self.X)}; give one target per sample."
                )

    # ------------------------------------------------------------------ features
    @property
    def interpolates(self) -> bool:
        """Whether the problem is to interpolate the targets with least norm."""
        return isinstance(self.loss, Interpolation)

    def activate(self, Z: np.ndarray) -> np.ndarray:
        """Return σ_a(Z).

        Parameters
        ----------
        Z : ndarray of shape (N, ·)
        """
        return np.maximum(Z, 0.0) + self.slope * np.minimum(Z, 0.0)

    def derivative(self, Z: np.ndarray) -> np.ndarray:
        """Return σ_a′(Z); at a kink (an entry 0) the left derivative a.

        Parameters
        ----------
        Z : ndarray of shape (N, ·)
        """
        return np.where(Z > 0, 1.0, self.slope)

    def _lift(self, values: np.ndarray, *, last: bool = False) -> np.ndarray:
        if self.bias == 0 or (last and self.output_bias == "none"):
            return values
        return np.column_stack([values, np.full(len(values), self.bias)])

    def image(self, Z: Sequence[np.ndarray], layer: int) -> LayerImage:
        """Return the image of A_ℓ = Z_ℓᵠ for ℓ = ``layer`` (0 is X̃) in representations of depth ``len(Z)``.

        Parameters
        ----------
        Z : sequence of ndarray of shape (N, n_ℓ)
        layer : int
        """
        values = self.activate(Z[layer - 1]) if layer else self.X
        return LayerImage(
            layer, self._lift(values, last=layer == len(Z) - 1), self.tikhonov, self.rank_tol
        )  # fmt: skip

    def images(self, Z: Sequence[np.ndarray]) -> list[LayerImage]:
        """Return the images of A₀ … A_{L−1}.

        Parameters
        ----------
        Z : sequence of ndarray of shape (N, n_ℓ)
        """
        return [self.image(Z, layer) for layer in range(len(Z))]

    def check(self, Z: Any) -> list[np.ndarray]:
        """Return representations as a list of finite float arrays (N, n_ℓ).

        Parameters
        ----------
        Z : sequence of ndarray of shape (N, n_ℓ)

        Raises
        ------
        InputError
            If there are none, rows are missing, entries are not finite, or Z_L and Y have different widths.
        """
        try:
            found = [np.asarray(z, dtype=float) for z in Z]
        except (TypeError, ValueError):
            found = []
        if not found:
            raise InputError(
                f"Z must be a sequence of numeric matrices Z_1 … Z_L; received {reprlib.repr(Z)}."
            )
        for layer, z in enumerate(found, start=1):
            if z.ndim != 2 or len(z) != len(self.X) or not np.isfinite(z).all():
                raise InputError(
                    f"Z_{layer} must hold finite numbers in a row for each sample, ({len(self.X)}, width); its shape "
                    f"is {z.shape}."
                )
        if self.loss is not None and found[-1].shape != self.loss.targets.shape:
            raise InputError(
                f"Z_{len(found)}, the outputs, has shape {found[-1].shape}; the targets have "
                f"{self.loss.targets.shape}."
            )
        return found

    def admissible(self, Z: Any) -> tuple[list[np.ndarray], list[LayerImage]]:
        """Return representations and the images of A₀ … A_{L−1}; for ε = 0 check that some network has them.

        Parameters
        ----------
        Z : sequence of ndarray of shape (N, n_ℓ)

        Warns
        -----
        PrecisionWarning
            For the first layer whose numerical rank is not clear, at the caller's caller.

        Raises
        ------
        InputError
            For the first layer that is outside of the image.
        """
        found = self.check(Z)
        images = self.images(found)
        for image, z in zip(images, found, strict=True):
            if (defect := image.defect(z)) > NEAR:
                raise InputError(
                    f"Z_{image.layer + 1} lies outside of the image of the layer before it, by {defect:.1e} of its "
                    "norm: no network has these representations; use project(Z) first, or a positive tikhonov."
                )
        blurred = next((image for image in images if not image.is_clear), None)
        if blurred is not None:
            warnings.warn(
                f"the rank {blurred.rank} of the features of layer {blurred.layer} is not clear: relative singular "
                f"values {blurred.kept:.1e} (kept) and {blurred.dropped:.1e} (dropped); what uses their "
                "pseudo-inverse is unreliable. Give tikhonov a small positive value.",
                PrecisionWarning,
                stacklevel=3,
            )
        return found, images

    # ------------------------------------------------------------------ the maps
    def to_representations(self, network: Any) -> list[np.ndarray]:
        """Return Φ(W), the representations Z_1 … Z_L of the data.

        Parameters
        ----------
        network : ReLUNetwork, DeepReLUNetwork, anything with a ``network``, or a sequence of matrices
            Matrices W_ℓ of shape (n_ℓ, columns of A_{ℓ−1}): the bias column is the last.

        Raises
        ------
        InputError
            If the network does not match the data or the options.
        """
        matrices = as_matrices(network, self.bias, self.output_bias, self.slope)
        found: list[np.ndarray] = []
        for layer, matrix in enumerate(matrices, start=1):
            values = self.activate(found[-1]) if found else self.X
            features = self._lift(values, last=layer == len(matrices))
            if matrix.ndim != 2 or matrix.shape[1] != features.shape[1]:
                raise InputError(
                    f"W_{layer} has shape {matrix.shape}; (width, {features.shape[1]}) is needed, "
                    f"{'the bias column included' if features.shape[1] and self.bias else 'without a bias column'}."
                )
            found.append(features @ matrix.T)
        return self.check(found)

    def to_weights(self, Z: Any) -> list[np.ndarray]:
        """Return Ψ(Z), the weights of least norm with these representations, as matrices as in Φ.

        Parameters
        ----------
        Z : sequence of ndarray of shape (N, n_ℓ)

        Warns
        -----
        PrecisionWarning
            If a numerical rank is not clear, so that the pseudo-inverse may be inaccurate.

        Raises
        ------
        InputError
            For representations that no network has (without Tikhonov's ε): project them first.
        """
        found, images = self.admissible(Z)
        return [image.weights(z).T for image, z in zip(images, found, strict=True)]

    def to_network(self, Z: Any) -> DeepReLUNetwork:
        """Return Ψ(Z) as a network, which also predicts at other points.

        Parameters
        ----------
        Z : sequence of ndarray of shape (N, n_ℓ)

        Warns
        -----
        PrecisionWarning
            If a numerical rank is not clear.

        Raises
        ------
        InputError
            For representations that no network has, and slope 1.
        """
        layers = self.to_weights(Z)
        layout, theta = Layout.of_layers(layers, self.X.shape[1], self.bias, self.output_bias)
        return layout.to_network(theta, self.slope)

    def project(self, Z: Any) -> list[np.ndarray]:
        r"""Project Z_ℓ on :math:`\operatorname{Im} A_{\ell-1}` in the order ℓ = 1 … L (FL22 §3.3).

        For interpolation Z_L is set to Y; :meth:`objective` then checks whether it is admissible.

        Parameters
        ----------
        Z : sequence of ndarray of shape (N, n_ℓ)
        """
        found = self.check(Z)
        for layer in range(len(found)):
            last = layer == len(found) - 1
            if last and self.loss is not None and self.interpolates:
                found[layer] = self.loss.targets.copy()
            else:
                found[layer] = self.image(found, layer).project(found[layer])
        return found

    def defects(self, Z: Any) -> tuple[float, ...]:
        """Return for each ℓ the relative part of ‖Z_ℓ‖ outside of Im A_{ℓ−1}; zero up to rounding if admissible.

        Parameters
        ----------
        Z : sequence of ndarray of shape (N, n_ℓ)
        """
        found = self.check(Z)
        return tuple(image.defect(z) for image, z in zip(self.images(found), found, strict=True))

    # ------------------------------------------------------------------ values
    def costs(self, Z: Any) -> tuple[float, ...]:
        r"""Return the terms :math:`\|A_{\ell-1}^+ Z_\ell\|^2`, ℓ = 1 … L; infinite outside of the image.

        Parameters
        ----------
        Z : sequence of ndarray of shape (N, n_ℓ)
        """
        found = self.check(Z)
        return tuple(
            image.cost(z) if image.defect(z) <= NEAR else np.inf
            for image, z in zip(self.images(found), found, strict=True)
        )

    def objective(self, Z: Any) -> float:
        """Return 𝓛ʳ(Z); infinite if no network has these representations (and ε = 0).

        Parameters
        ----------
        Z : sequence of ndarray of shape (N, n_ℓ)
        """
        found = self.check(Z)
        return self.fit_cost(found[-1]) + self.lam * sum(self.costs(found))

    def weight_objective(self, network: Any) -> float:
        """Return 𝓛_λ(W) = C(Z_L) + λ‖W‖² of a network, an upper bound on 𝓛ʳ at its representations.

        Parameters
        ----------
        network : network or sequence of matrices
            As in :meth:`to_representations`.
        """
        matrices = as_matrices(network, self.bias, self.output_bias, self.slope)
        outputs = self.to_representations(matrices)[-1]
        return self.fit_cost(outputs) + self.lam * float(sum(np.square(w).sum() for w in matrices))

    def fit_cost(self, outputs: np.ndarray) -> float:
        """Return the loss C(Z_L); for interpolation 0 at the targets, else infinite.

        Parameters
        ----------
        outputs : ndarray of shape (N, k)
        """
        return 0.0 if self.loss is None else self.loss.value(outputs)

    def fit_gradient(self, outputs: np.ndarray) -> np.ndarray:
        """Return ∇C(Z_L); zero without a loss and for interpolation.

        Parameters
        ----------
        outputs : ndarray of shape (N, k)
        """
        if self.loss is None or self.interpolates:
            return np.zeros_like(outputs)
        return self.loss.gradient(outputs)
