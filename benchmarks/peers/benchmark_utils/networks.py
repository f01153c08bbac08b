"""Networks as the objective takes them: hidden weights (m, D), output weights (m,), output bias; the best counts."""

import numpy as np

NEGLIGIBLE = 1e-9


def as_result(*networks, note=""):
    """The networks of a run, and in ``note`` what its solver complained about."""
    found = [
        (np.asarray(hidden, dtype=float), np.asarray(output, dtype=float).ravel(), float(np.squeeze(shift)))
        for hidden, output, shift in networks
    ]
    return {"networks": found, "note": note}


def nothing(n_inputs):
    """The network without neurons."""
    return as_result((np.zeros((0, n_inputs)), np.zeros(0), 0.0))


def from_cells(positive, negative, output_bias=0.0, note=""):
    """Balance the network of the cells' vectors: p_s is a neuron with a positive output weight, q_s with a negative.

    A neuron below ``NEGLIGIBLE`` of the largest is what an iterative solver leaves of zero; it is dropped.
    """
    vectors = np.concatenate([positive, negative])
    signs = np.repeat([1.0, -1.0], [len(positive), len(negative)])
    size = np.linalg.norm(vectors, axis=1)
    kept = size > NEGLIGIBLE * size.max(initial=0.0)
    root = np.sqrt(size[kept])
    return as_result((vectors[kept] / root[:, None], signs[kept] * root, output_bias), note=note)
