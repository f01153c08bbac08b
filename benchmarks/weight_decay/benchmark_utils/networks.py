"""Networks as the objective takes them."""

import numpy as np

NEGLIGIBLE = 1e-9


def as_result(hidden_weights, output_weights, output_bias=0.0, note=""):
    """The network, and in ``note`` what its solver complained about."""
    return {
        "hidden_weights": np.asarray(hidden_weights, dtype=float),
        "output_weights": np.asarray(output_weights, dtype=float),
        "output_bias": float(output_bias),
        "note": note,
    }


def zero_network(n_inputs):
    return as_result(np.zeros((0, n_inputs)), np.zeros(0))


def from_cells(positive, negative, output_bias=0.0, note=""):
    """Balance the network of the cells' vectors: p_s is a neuron with a positive output weight, q_s with a negative.

    A neuron below ``NEGLIGIBLE`` of the largest is what an iterative solver leaves of zero; it is dropped.
    """
    vectors = np.concatenate([positive, negative])
    signs = np.repeat([1.0, -1.0], [len(positive), len(negative)])
    size = np.linalg.norm(vectors, axis=1)
    kept = size > NEGLIGIBLE * size.max(initial=0.0)
    root = np.sqrt(size[kept])
    return as_result(vectors[kept] / root[:, None], signs[kept] * root, output_bias, note)
