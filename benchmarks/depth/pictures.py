"""Pictures of the experiments."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.ticker import MaxNLocator

SHADES = ("0.95", "0.75", "0.88", "0.65")  # of four classes, neighbours apart
MARKERS = "os^D"


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
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    styles = (("C0", "-", "C0"), ("C3", "--", "w"))
    for (color, line, face), ((size, lam), rows) in zip(styles, found["ladders"].items(), strict=False):
        depths, norms, ranks, slopes = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
        name = f"$\\sum E y^2$ = {size:g}, $\\lambda$ = {lam:g}"
        left.plot(depths, norms, line, color=color, alpha=0.4, zorder=0)
        for rank, marker in ((2, "o"), (3, "^"), (4, "s")):
            on = ranks == rank
            if on.any():
                left.plot(
                    depths[on], norms[on], marker, ms=4, color=color, mfc=face, label=f"{name}, rank {rank}"
                )
        middles = 0.5 * (depths[1:] + depths[:-1])
        right.plot(
            middles, np.diff(norms), "o", ms=4, color=color, mfc=face, label=f"rise from L to L + 1, {name}"
        )
        right.plot(
            depths, slopes, line, color=color, label="$\\sum \\bar s^2(1 - 2\\log \\bar s)$ of the middle"
        )
    left.set(xlabel="depth L", title="$\\|W\\|^2$ of the trained network")
    left.legend(frameon=False, fontsize="x-small")
    for rank in (2.0, 3.0):
        right.axhspan(0.95 * rank, 1.05 * rank, color="0.9", zorder=0)
    right.set(xlabel="depth L", ylim=(0, 3.6), title="slope; grey: 5 % about 2 and 3")
    right.legend(frameon=False, fontsize="x-small", loc="lower right")
    for ax in (left, right):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
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
            classes, extent=(-reach, reach, -reach, reach), origin="lower", cmap=ListedColormap(SHADES),
            vmin=0, vmax=3,
        )  # fmt: skip
        for label, marker in enumerate(MARKERS):
            points = found["X"][found["labels"] == label]
            ax.plot(
                *points.T, marker, ms=2.5, color="k", mfc="w" if label % 2 else "k", mew=0.5, ls="",
                label=f"class {label}",
            )  # fmt: skip
        ax.set(title=f"L = {depth}, λ = {lam:g}", xlabel="$x_0$")
    axes[0].set_ylabel("$x_1$")
    axes[0].legend(frameon=True, fontsize="x-small", loc="upper left", markerscale=1.5)
    return figure


def draw_autoencoders(found: dict[str, Any]) -> Any:
    """RK23 Figure 3: where noisy points are sent."""
    parts = found["found"]
    figure, axes = plt.subplots(1, len(parts), figsize=(2.8 * len(parts), 2.9), layout="constrained")
    for ax, ((seed, depth), (X, noisy, out)) in zip(axes, parts.items(), strict=True):
        for a, b in zip(noisy[:60], out[:60], strict=True):
            ax.plot(*np.array([a, b]).T, color="0.7", lw=0.6)
        ax.plot(*X.T, ".", ms=2, color="k", label="without noise")
        ax.plot(*noisy[:60].T, "x", ms=3, color="0.55", label="noisy")
        ax.plot(*out[:60].T, "o", ms=3, color="C1", mfc="w", label="sent to")
        ax.set(title=f"curve {seed}, L = {depth}", xticks=[], yticks=[], aspect="equal")
    axes[0].legend(frameon=False, fontsize="x-small")
    return figure


def draw_students(found: dict[str, Any]) -> Any:
    """FL22 Figure 2, right: the best student of each width over its teacher."""
    figure, ax = plt.subplots(figsize=(4.5, 3.2), layout="constrained")
    widths, ratios = zip(*found["rows"], strict=True)
    ax.plot(widths, ratios, "o-", ms=4)
    ax.axhline(1.0, color="0.4", ls=":", label="the teacher itself")
    ax.set(xlabel="width", xticks=widths[::2], title="best student's objective / teacher's")
    ax.ticklabel_format(useOffset=False)
    ax.legend(frameon=False)
    return figure


def draw_symmetry(found: dict[str, Any]) -> Any:
    """BN23 Figure 2: singular values; descents in the middle layer; distances in a plane across w."""
    network, task, layer = found["network"], found["task"], found["layer"]
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.2), layout="constrained")
    for k, values in enumerate(np.asarray(found["values"]).T):
        marker = "o^sDv"[k % 5]
        axes[0].plot(np.arange(1, len(values) + 1), values, f"{marker}-", ms=3, label=f"$s_{k + 1}$")
    axes[0].set(xlabel="layer", title=r"singular values of $W_\ell$")
    axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].legend(frameon=False, fontsize="small", ncols=2)
    paths = task.path(found["v"][:25])
    flat = network.representations(paths.reshape(-1, paths.shape[2]))[layer - 1]
    middle = flat.mean(axis=0)
    axis = np.linalg.svd(flat - middle, full_matrices=False)[2][:2]
    places = ((flat - middle) @ axis.T).reshape(len(paths), -1, 2)
    for k in range(places.shape[1]):
        axes[1].plot(*places[:, k].T, "-", lw=0.9)
        axes[1].plot(*places[0, k], "k.", ms=3)
    axes[1].set(title=f"descents (dot: start), seen in $Z_{{{layer}}}$", xticks=[], yticks=[])
    axes[1].set(xlabel="first principal axis", ylabel="second")
    across = np.linalg.svd(task.w[None], full_matrices=True)[2][1:3]
    line = np.linspace(-1.5, 1.5, 61)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2) @ across + 0.5 * task.w
    fixed = 0.8 * across[0] + 0.5 * task.w
    z = network.representations(np.vstack([fixed, grid]))[layer - 1]
    far = np.linalg.norm(z[1:] - z[0], axis=1).reshape(61, 61)
    shown = axes[2].imshow(far, extent=(-1.5, 1.5, -1.5, 1.5), origin="lower", cmap="viridis")
    axes[2].plot(0.8, 0.0, "wo", ms=5, mec="k")
    figure.colorbar(shown, ax=axes[2])
    axes[2].set(title=f"distance in $Z_{{{layer}}}$ to the white point", xlabel="two coordinates across $w$")
    return figure


DRAWN = {
    "bn23-2": draw_symmetry,
    "rk23-1": draw_spectra,
    "rk23-2": draw_classes,
    "rk23-3": draw_autoencoders,
    "bn23-1": draw_norms,
    "fl22-2": draw_students,
}


def draw(name: str, found: dict[str, Any], out: str) -> None:
    """Save the picture of an experiment."""
    DRAWN[name](found).savefig(out, dpi=150)
