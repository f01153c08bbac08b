"""Data whose optimal network needs one neuron per edge of a graph (FL22 Prop 13, Prop 14, Remark 23)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from covopt.checks import Brief, Rows, counted
from covopt.completely_positive.certificate import CPRankCertificate
from covopt.completely_positive.graphs import check_graph, graph_matrix, incidence
from covopt.completely_positive.rank import cp_rank
from covopt.errors import InputError
from covopt.network import ReLUNetwork

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, eq=False, repr=False)
class TightInstance(Rows, Brief):
    """A data set with its exact representation cost and the least number of neurons that attains it.

    Attributes
    ----------
    X : ndarray of shape (N, N)
        The identity.
    Y : ndarray of shape (N, N)
        EᵀE, so that (YYᵀ)^½ = EᵀE.
    cost : float
        R₂(X, Y) = 2 Tr EᵀE = 4 × edges, without biases; exact.
    network : ReLUNetwork
        Optimal network, with one neuron per edge.
    certificate : CPRankCertificate
        The optimal networks have covariance EᵀE, so their activations are a nonnegative factor of it, and they have
        at least ``certificate.lower`` neurons.
    small_network : ReLUNetwork
        Network with one neuron per sample (Remark 23), nearly optimal.
    graph : networkx.Graph
    """

    X: np.ndarray
    Y: np.ndarray
    cost: float
    network: ReLUNetwork
    certificate: CPRankCertificate
    small_network: ReLUNetwork
    graph: nx.Graph

    @property
    def n_neurons(self) -> int | None:
        """Least number of neurons of a minimal-norm network; None if the certificate is not exact."""
        return self.certificate.lower if self.certificate.is_exact else None

    WIDTH = 10

    def _rows(self) -> list[tuple[str, str]]:
        found = self.certificate
        fewest = f"{found.lower}" if found.is_exact else f"between {found.lower} and {found.upper}"
        edges = counted(self.graph.number_of_edges(), "edge")
        rows = [
            ("data", f"{counted(len(self.X), 'sample')}, X = I, Y = EᵀE, {edges}, no biases"),
            ("cost R₂", f"{self.cost:g} = 2 Tr (YYᵀ)^½ (FL22 Prop 14)"),
            ("neurons", f"{fewest} are the fewest in a network of that norm: the CP-rank of (YYᵀ)^½"),
            ("optimal", f"{counted(len(self.network), 'neuron')}, ‖W‖² = {self.network.squared_norm:g}"),
            ("small", f"{counted(len(self.small_network), 'neuron')}, "
                      f"‖W‖² = {self.small_network.squared_norm:g} (Remark 23)"),
        ]  # fmt: skip
        return rows


def tight_instance(graph: nx.Graph, *, time_limit_s: float | None = 300.0) -> TightInstance:
    r"""Build X = I and Y = EᵀE, for which the minimal norm is 4 × edges and requires CP-rank(EᵀE) neurons.

    .. math::

        R_2(I, Y) = 2 \operatorname{Tr} (Y Y^\top)^{1/2}, \qquad K_1 = K_1^\sigma = (Y Y^\top)^{1/2} = E^\top E

    at every minimiser (FL22 Prop 14, β = 0), so a minimiser with n neurons gives a nonnegative factor with n rows. By
    Prop 13 a triangle-free graph needs one row per edge. Remark 23: W₁ = √δ I, W₂ = EᵀE/√δ with the mean degree δ has
    N neurons and, for K_{N/2,N/2}, squared norm N² + N instead of N².

    Parameters
    ----------
    graph : networkx.Graph
        A graph with at least one edge. Triangles are allowed; the certificate then uses other bounds.
    time_limit_s : float, optional
        Time limit for the certificate.

    Returns
    -------
    TightInstance

    Raises
    ------
    InputError
        For a directed graph, a multigraph, loops, or a graph without edges.

    Examples
    --------
    >>> from covopt.completely_positive.graphs import complete_bipartite
    >>> instance = tight_instance(complete_bipartite(3, 3))
    >>> instance.cost, instance.n_neurons, instance.network.squared_norm, instance.small_network.squared_norm
    (36.0, 9, 36.0, 42.0)
    >>> bool(abs(instance.network.predict(instance.X) - instance.Y).max() < 1e-14)
    True
    """
    edges = check_graph(graph).number_of_edges()
    if edges == 0:
        raise InputError("the graph has no edge, so Y would be zero; give it at least one edge.")
    E = incidence(graph).astype(float)
    Y = graph_matrix(graph).astype(float)
    n = len(Y)
    silent = np.zeros(n)
    certificate = cp_rank(graph, time_limit_s=time_limit_s)
    rows = E if certificate.factor is None or len(certificate.factor) >= edges else certificate.factor
    root = np.sqrt(2.0 * edges / n)
    return TightInstance(
        X=np.eye(n),
        Y=Y,
        cost=4.0 * edges,
        network=ReLUNetwork(rows, rows, 0.0, silent),
        certificate=certificate,
        small_network=ReLUNetwork(root * np.eye(n), Y / root, 0.0, silent),
        graph=graph,
    )
