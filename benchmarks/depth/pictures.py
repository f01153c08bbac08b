"""Pictures of the experiments."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np


def draw_spectra(found: dict[str, Any]) -> Any:
    """RK23 Figure 1: singular values of Z_ℓ, what the ReLUs do, singular values of W_ℓ."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    layers = np.arange(1, len(found["W"]) + 1)
    for k in range(6):
        color = plt.cm.viridis(k / 6)
        axes[0].semilogy(
            layers, np.maximum(found["Z"][:, k], 1e-5), "o-", ms=3, color=color, label=f"$s_{k + 1}$"
        )
        axes[2].plot(layers, found["W"][:, k], "o-", ms=3, color=color)
    axes[1].plot(layers, found["bent"], "o-", ms=3, color="k")
    axes[0].set(title="$s_k(Z_\\ell)/s_1(Z_\\ell)$", xlabel="layer", ylim=(1e-5, 2))
    axes[1].set(title="$\\|Z_\\ell - \\sigma(Z_\\ell)\\|/\\|Z_\\ell\\|$", xlabel="layer", ylim=(0, None))
    axes[2].set(title="$s_k(W_\\ell)$", xlabel="layer", ylim=(0, None))
    axes[0].legend(frameon=False, fontsize="small", ncols=2)
    return figure


def draw_norms(found: dict[str, Any]) -> Any:
    """BN23 Figure 1: the norm against the depth, and the singular values that say why."""
    depths, norms, ranks, slopes = (
        np.array(column, dtype=float) for column in zip(*found["rows"], strict=True)
    )
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for rank in np.unique(ranks).astype(int):
        on = ranks == rank
        left.plot(depths[on], norms[on], "o", label=f"rank {rank} in the middle")
    left.plot(depths, norms, "-", color="0.7", zorder=0)
    left.set(xlabel="depth L", title="$\\|W\\|^2$ of the trained network")
    left.legend(frameon=False, fontsize="small")
    right.plot(0.5 * (depths[1:] + depths[:-1]), np.diff(norms), "ko", ms=4, label="rise from L to L + 1")
    right.plot(depths, slopes, "-", color="C3", label="$\\sum \\bar s^2(1 - 2\\log \\bar s)$ of the middle")
    right.set(xlabel="depth L", ylim=(0, None), title="slope")
    right.legend(frameon=False, fontsize="small")
    return figure


def draw_classes(found: dict[str, Any], reach: float = 4.0) -> Any:
    """RK23 Figure 2: partitions of the plane."""
    networks = found["networks"]
    figure, axes = plt.subplots(1, len(networks), figsize=(2.8 * len(networks), 2.9), layout="constrained")
    line = np.linspace(-reach, reach, 300)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    for ax, ((depth, lam), network) in zip(axes, networks.items(), strict=True):
        classes = network.predict(grid).argmax(axis=1).reshape(300, 300)
        ax.imshow(
            classes, extent=(-reach, reach, -reach, reach), origin="lower", cmap="Pastel1", vmin=0, vmax=8
        )
        ax.scatter(*found["X"].T, c=found["labels"], cmap="Set1", vmin=0, vmax=8, s=3)
        ax.set(title=f"L = {depth}, λ = {lam:g}", xticks=[], yticks=[])
    return figure


def draw_autoencoders(found: dict[str, Any]) -> Any:
    """RK23 Figure 3: where noisy points are sent."""
    parts = found["found"]
    figure, axes = plt.subplots(1, len(parts), figsize=(2.8 * len(parts), 2.9), layout="constrained")
    for ax, ((seed, depth), (X, noisy, out)) in zip(axes, parts.items(), strict=True):
        for a, b in zip(noisy[:60], out[:60], strict=True):
            ax.plot(*np.array([a, b]).T, color="0.7", lw=0.6)
        ax.plot(*X.T, ".", ms=3, color="C0")
        ax.plot(*noisy[:60].T, ".", ms=3, color="C2")
        ax.plot(*out[:60].T, ".", ms=3, color="C1")
        ax.set(title=f"curve {seed}, L = {depth}", xticks=[], yticks=[], aspect="equal")
    return figure


DRAWN = {"rk23-1": draw_spectra, "rk23-2": draw_classes, "rk23-3": draw_autoencoders, "bn23-1": draw_norms}


def draw(name: str, found: dict[str, Any], out: str) -> None:
    """Save the picture of an experiment."""
    DRAWN[name](found).savefig(out, dpi=120)
