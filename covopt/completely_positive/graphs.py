"""Graphs, their matrices EᵀE (FL22 Prop 13), and a collection of triangle-free graphs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks import one_line, required
from covopt.checks.validation import check_count, check_random_state
from covopt.errors import InputError

if TYPE_CHECKING:
    import networkx as nx

MOST_ROWS = 5000  # of a matrix, and of cliques, each a possible row of a factor
GRAPH_SUFFIXES = (".g6", ".graphml")


def is_graph(value: Any) -> bool:
    """Return whether ``value`` is a networkx graph, without importing networkx.

    Examples
    --------
    >>> is_graph(cycle(4)), is_graph([[1.0]])
    (True, False)
    """
    return any(base.__module__.startswith("networkx.") for base in type(value).__mro__)


def check_graph(graph: nx.Graph) -> nx.Graph:
    """Return the graph, after checking that it is simple, undirected and not empty.

    Parameters
    ----------
    graph : networkx.Graph

    Raises
    ------
    InputError
        For anything but a networkx graph, a directed graph, a multigraph, a loop, edges whose ``weight`` is not 1, or
        no vertex at all.

    Examples
    --------
    >>> check_graph(cycle(4)).number_of_edges()
    4
    """
    if not is_graph(graph):
        raise InputError(
            f"graph must be a networkx graph; received {type(graph).__name__}. Build one with nx.Graph(edges)."
        )
    if graph.is_directed():
        raise InputError(
            "the graph is directed, and an incidence matrix EᵀE needs edges without direction; "
            "pass graph.to_undirected()."
        )
    if graph.is_multigraph():
        raise InputError(
            "the graph is a multigraph, and parallel edges have no place in EᵀE; pass nx.Graph(graph)."
        )
    loop = next(((u, v) for u, v in graph.edges if u == v), None)
    if loop is not None:
        raise InputError(
            f"the graph has a loop at vertex {loop[0]!r}; remove it (nx.selfloop_edges finds them all)."
        )
    weighted = next(((u, v, w) for u, v, w in graph.edges(data="weight") if w is not None and w != 1), None)
    if weighted is not None:
        u, v, weight = weighted
        raise InputError(
            f"the edge between {u!r} and {v!r} has the weight {weight!r}, and EᵀE has no place for weights: remove "
            "the attribute 'weight' from the edges, or give the matrix with its diagonal instead of the graph."
        )
    if graph.number_of_nodes() == 0:
        raise InputError("the graph has no vertex; give it at least one.")
    if graph.number_of_nodes() > MOST_ROWS:
        raise InputError(
            f"the graph has {graph.number_of_nodes()} vertices, and EᵀE is stored with all its zeros: {MOST_ROWS} "
            "are the most. CP-ranks of components add up, so give them one by one."
        )
    return graph


def incidence(graph: nx.Graph) -> np.ndarray:
    r"""Return the incidence matrix: E_ev = 1 where vertex v is an end of edge e (FL22 Prop 13).

    Parameters
    ----------
    graph : networkx.Graph

    Returns
    -------
    ndarray of shape (n_edges, n_vertices)
        Integers; vertices and edges in the order of the graph.

    Raises
    ------
    InputError
        See :func:`check_graph`.

    Examples
    --------
    >>> incidence(cycle(3))
    array([[1, 1, 0],
           [1, 0, 1],
           [0, 1, 1]])
    """
    return _networkx().incidence_matrix(check_graph(graph)).toarray().T.astype(np.int64)


def graph_matrix(graph: nx.Graph) -> np.ndarray:
    """Return A = EᵀE: degrees on the diagonal, 1 where there is an edge.

    Parameters
    ----------
    graph : networkx.Graph

    Examples
    --------
    >>> graph_matrix(complete_bipartite(1, 2))
    array([[2, 1, 1],
           [1, 1, 0],
           [1, 0, 1]])
    """
    E = _networkx().incidence_matrix(check_graph(graph), dtype=np.int64)
    return (E @ E.T).toarray()


def _networkx() -> Any:
    return required("networkx", "a graph", "graphs")


def complete_bipartite(m: int, n: int) -> nx.Graph:
    """Return K_{m,n}; with m = n = N/2 its matrix is FL22's B_N, of CP-rank N²/4.

    Examples
    --------
    >>> complete_bipartite(3, 3).number_of_edges()
    9
    """
    return _networkx().complete_bipartite_graph(check_count("m", m), check_count("n", n))


def cycle(n: int) -> nx.Graph:
    """Return the cycle on n ≥ 3 vertices; triangle-free from n = 4 on."""
    return _networkx().cycle_graph(check_count("n", n, 3))


def petersen() -> nx.Graph:
    """Return the Petersen graph: 10 vertices, 15 edges, no triangle, chromatic number 3."""
    return _networkx().petersen_graph()


def mycielski(k: int) -> nx.Graph:
    """Return Mycielski's triangle-free graph of chromatic number k ≥ 1 (K₁, K₂, C₅, Grötzsch, …)."""
    return _networkx().mycielski_graph(check_count("k", k))


def grotzsch() -> nx.Graph:
    """Return the Grötzsch graph: 11 vertices, 20 edges, no triangle, chromatic number 4."""
    return mycielski(4)


def random_triangle_free(n: int, *, n_edges: int | None = None, random_state: int | None = None) -> nx.Graph:
    """Run the random triangle-free process: add pairs in random order unless they close a triangle.

    Parameters
    ----------
    n : int
        Vertices.
    n_edges : int, optional
        Stop at this many edges; by default go on until no pair can be added.
    random_state : int, optional

    Returns
    -------
    networkx.Graph
        A graph with at most ``n_edges`` edges: the process may end earlier.

    Raises
    ------
    InputError
        If n is not a positive integer, n_edges is negative, or random_state is not a valid seed.

    Examples
    --------
    >>> graph = random_triangle_free(12, random_state=0)
    >>> is_triangle_free(list(graph.edges))
    True
    """
    n = check_count("n", n)
    limit = n * n if n_edges is None else check_count("n_edges", n_edges, 0)
    rng = np.random.default_rng(check_random_state(random_state))
    graph = _networkx().empty_graph(n)
    for u, v in rng.permutation(np.column_stack(np.triu_indices(n, 1))).tolist():
        if graph.number_of_edges() < limit and graph[u].keys().isdisjoint(graph[v]):
            graph.add_edge(u, v)
    return graph


def triangle_free_graphs(n: int) -> Iterator[nx.Graph]:
    """Yield every triangle-free graph on n ≤ 7 vertices once, up to isomorphism, from networkx's atlas.

    Parameters
    ----------
    n : int

    Raises
    ------
    InputError
        If n is not between 1 and 7.

    Examples
    --------
    >>> [sum(1 for _ in triangle_free_graphs(n)) for n in range(1, 8)]
    [1, 2, 3, 7, 14, 38, 107]
    """
    if check_count("n", n) > 7:
        raise InputError(f"n must be at most 7 (all graphs are listed); received {n!r}.")
    for graph in _networkx().graph_atlas_g():
        if graph.number_of_nodes() == n and is_triangle_free(list(graph.edges)):
            yield graph


def read_graph(path: str | os.PathLike[str]) -> nx.Graph:
    """Read a graph from a graph6 (``.g6``) or GraphML (``.graphml``) file.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    InputError
        If the file has no graph of that format, more than one, or one that :func:`check_graph` refuses.
    """
    nx = _networkx()
    path = Path(path)
    if path.suffix.lower() != ".g6" and any(
        word in path.read_bytes() for word in (b"<!ENTITY", b"<!DOCTYPE")
    ):
        raise InputError(f"{path} defines entities, which GraphML does not need and covopt does not read.")
    try:
        graph = nx.read_graph6(path) if path.suffix.lower() == ".g6" else nx.read_graphml(path)
    except OSError:
        raise
    except Exception as error:
        raise InputError(f"{path} is not a readable {path.suffix} file: {one_line(error)}") from None
    if isinstance(graph, list):
        raise InputError(f"{path} holds {len(graph)} graphs; keep the line of one of them.")
    return check_graph(graph)


def is_triangle_free(edges: Sequence[tuple[int, int]]) -> bool:
    """Return whether no three of the pairs form a triangle.

    Examples
    --------
    >>> is_triangle_free([(0, 1), (1, 2), (2, 3), (0, 3)]), is_triangle_free([(0, 1), (1, 2), (0, 2)])
    (True, False)
    """
    near: dict[int, set[int]] = {}
    for u, v in edges:
        near.setdefault(u, set()).add(v)
        near.setdefault(v, set()).add(u)
    return not any(near[u] & near[v] for u, v in edges)
