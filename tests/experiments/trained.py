"""Trained minima for the tests: plain L-BFGS of scipy on the weights, far tighter than any figure needs."""

import numpy as np
from scipy.optimize import minimize


def value_and_gradient(problem, weights):
    """𝓛_λ and its gradient by backpropagation, independent of the closed forms under test."""
    found = problem.to_representations(weights)
    back, slopes = problem.fit_gradient(found[-1]), []
    for i in range(len(weights) - 1, -1, -1):
        slopes.append(back.T @ problem.image(found, i).features + 2 * problem.lam * weights[i])
        if i:
            back = problem.derivative(found[i - 1]) * (back @ weights[i][:, : len(weights[i - 1])])
    return problem.weight_objective(weights), slopes[::-1]


def random_weights(problem, widths, k, seed, scale=1.0):
    rng = np.random.default_rng(seed)
    sizes = [problem.X.shape[1], *widths, k]
    depth = len(sizes) - 1
    columns = [
        sizes[i] + (problem.bias > 0 and not (problem.output_bias == "none" and i == depth - 1))
        for i in range(depth)
    ]
    return [
        scale * rng.standard_normal((sizes[i + 1], int(columns[i]))) / np.sqrt(columns[i])
        for i in range(depth)
    ]


def train(problem, widths, seed, rounds=6):
    """Return weights and the largest entry of the gradient there."""
    start = random_weights(problem, widths, problem.loss.targets.shape[1], seed)
    ends = np.cumsum([w.size for w in start])[:-1]

    def unpack(theta):
        return [part.reshape(w.shape) for part, w in zip(np.split(theta, ends), start, strict=True)]

    def function(theta):
        value, slopes = value_and_gradient(problem, unpack(theta))
        return value, np.concatenate([g.ravel() for g in slopes])

    theta = np.concatenate([w.ravel() for w in start])
    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 0.0, "gtol": 1e-11, "maxcor": 30}
    for _ in range(rounds):
        theta = minimize(function, theta, jac=True, method="L-BFGS-B", options=options).x
    return unpack(theta), float(np.abs(function(theta)[1]).max())
