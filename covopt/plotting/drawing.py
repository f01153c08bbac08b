"""Pictures by matplotlib: one function for each kind of layer, and the axes around them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.optional import required
from covopt.plotting.pictures import (
    CLASS_TONES,
    INK,
    NEGATIVE,
    POSITIVE,
    TONES,
    Kinks,
    Line,
    Picture,
    Points,
    Regions,
    Samples,
    Surface,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DPI = 150
STYLES = ("-", "--", ":", "-.")
DECADES = 2.0  # that a logarithmic axis shows at least


def new_axes(ax: Axes | None) -> Axes:
    """Return the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    plt = required("matplotlib.pyplot", "drawing", "plot")
    return plt.subplots(figsize=(6.0, 4.5), dpi=DPI, layout="constrained")[1]


def draw(picture: Picture, ax: Axes | None = None) -> Axes:
    """Draw a picture.

    Parameters
    ----------
    picture : Picture
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
    """
    ax = new_axes(ax)
    ax.set(xlabel=plain(picture.x), ylabel=plain(picture.y))
    ax.set_title(plain(picture.title), fontsize="medium")
    if not picture.layers:
        ax.set(xticks=[], yticks=[])
        ax.text(0.5, 0.5, picture.empty, ha="center", va="center", transform=ax.transAxes)
        return ax
    if picture.xlim is not None:
        ax.set_xlim(*picture.xlim)
    if picture.ylim is not None:
        ax.set_ylim(*picture.ylim)
    for place, layer in enumerate(picture.layers):
        _DRAW[type(layer)](ax, layer, place + 1)
    for bound in picture.bounds:
        ax.axhline(bound, color="0.45", lw=1.0, ls="--", zorder=0, label="bound" if bound == 1 else None)
    for wall in picture.walls:
        ax.axvline(wall, color="0.55", lw=0.9, zorder=0)
    for name in picture.logs:
        getattr(ax, f"set_{name}scale")("log")
    if "y" in picture.logs:
        widen(ax)
    for name in picture.whole:
        getattr(ax, f"{name}axis").get_major_locator().set_params(integer=True)
    if picture.xticks is not None:
        ax.set_xticks(picture.xticks)
    if picture.yticks is not None:
        ax.set_yticks(picture.yticks)
    if picture.columns:
        legend_below(ax, columns=picture.columns)
    return ax


def plain(text: str) -> str:
    r"""Return a text as matplotlib shows it: no mathematics between dollars, and a place in the legend.

    Parameters
    ----------
    text : str

    Examples
    --------
    >>> plain("price in $"), plain("_x")
    ('price in \\$', ' _x')
    """
    said = text.replace("$", r"\$")
    return f" {said}" if said.startswith("_") else said  # a leading underscore keeps a line out of the legend


def legend_below(ax: Axes, handles: list[Any] | None = None, columns: int = 2) -> None:
    """Put the legend under the axes, where it hides nothing."""
    found = handles if handles is not None else ax.get_legend_handles_labels()[0]
    ax.legend(
        handles=found,
        fontsize="small",
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
        ncols=columns,
        frameon=False,
    )


def widen(ax: Axes) -> None:
    """Give a logarithmic axis two decades at least: on less its ticks are no powers of ten, or all alike.

    Parameters
    ----------
    ax : matplotlib Axes
    """
    low, high = np.log10(ax.get_ylim())
    if high - low < DECADES:
        middle = 0.5 * (low + high)
        ax.set_ylim(10.0 ** (middle - 0.5 * DECADES), 10.0 ** (middle + 0.5 * DECADES))


def untangle(figure: Any) -> None:
    """Take ticks away until no two of their labels overlap."""
    from matplotlib.ticker import MaxNLocator

    for n_ticks in (6, 5, 4, 3):
        figure.draw_without_rendering()
        tangled = [
            axis
            for ax in figure.axes
            for axis in (ax.xaxis, ax.yaxis)
            if axis.get_visible() and axis.get_scale() == "linear" and _labels_overlap(axis)
        ]
        if not tangled:
            return
        for axis in tangled:
            axis.set_major_locator(MaxNLocator(n_ticks))


def _labels_overlap(axis: Any) -> bool:
    low, high = sorted(axis.get_view_interval())
    ticks = [t for t in axis.get_major_ticks() if low <= t.get_loc() <= high and t.label1.get_text()]
    boxes = [t.label1.get_window_extent() for t in ticks]
    return any(a.overlaps(b) for a, b in pairwise(boxes))


def _line(ax: Axes, line: Line, place: int) -> None:
    style: dict[str, Any] = {
        "color": line.color,
        "lw": line.width,
        "ls": STYLES[line.dash % 4],
        "zorder": place,
    }
    marks: dict[str, Any] = {"marker": line.symbol or None, "ms": 4, "mec": line.color}
    label = plain(line.name) if line.name else None
    if np.ndim(line.filled) == 0:
        ax.plot(line.x, line.y, label=label, mfc=line.color if line.filled else "white", **marks, **style)
        return
    ax.plot(line.x, line.y, label=label, **style)
    for of, face in ((line.filled, line.color), (~line.filled, "white")):
        ax.plot(line.x[of], line.y[of], mfc=face, **marks, **style | {"ls": ""})


def _points(ax: Axes, points: Points, place: int) -> None:
    label = plain(points.name) if points.name else None
    if np.ndim(points.size):
        ax.scatter(
            points.x, points.y, s=np.asarray(points.size) ** 2, marker=points.symbol, facecolors=points.face,
            edgecolors=points.edge, zorder=place, label=label,
        )  # fmt: skip
        return
    ax.plot(
        points.x, points.y, points.symbol, ms=points.size, mfc=points.face, mec=points.edge, mew=0.9,
        ls="-" if points.joined else "", color="0.4", lw=0.8, zorder=place, label=label,
    )  # fmt: skip


def _power(scale: tuple[float, float]) -> int:
    """Return the power of two by which values are divided: matplotlib squares."""
    peak = max(map(abs, scale))
    return int(np.frexp(peak)[1]) if peak > 1e150 or 0 < peak < 1e-150 else 0


def _tones(scale: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    return LinearSegmentedColormap.from_list("tones", TONES), Normalize(*np.ldexp(scale, -_power(scale)))


def _surface(ax: Axes, surface: Surface, place: int) -> None:
    from matplotlib.ticker import MaxNLocator

    power, (tones, norm) = _power(surface.scale), _tones(surface.scale)
    levels = MaxNLocator(14, steps=[1, 2, 2.5, 5, 10]).tick_values(norm.vmin, norm.vmax)
    values = np.ldexp(surface.values, -power)
    filled = ax.contourf(
        surface.first, surface.second, values, levels=levels, cmap=tones, norm=norm, extend="both"
    )
    ticks = np.asarray(MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(levels[0], levels[-1]))
    ticks = ticks[(ticks >= levels[0]) & (ticks <= levels[-1])]
    name = plain(surface.name) + (f" / 2^{power}" if power else "")
    ax.figure.colorbar(filled, ax=ax, label=name, pad=0.02, ticks=ticks)


def _samples(ax: Axes, samples: Samples, place: int) -> None:
    tones, norm = _tones(samples.scale)
    size = float(np.clip(400 / max(len(samples.x), 1), 8, 30))
    ax.scatter(
        samples.x, samples.y, c=np.ldexp(samples.values, -_power(samples.scale)), cmap=tones, norm=norm, s=size,
        edgecolors=INK, linewidths=0.8, zorder=place,
    )  # fmt: skip
    ax.plot([], [], "o", mfc="white", mec=INK, ms=5, ls="", label="data (same scale)")


def _regions(ax: Axes, regions: Regions, place: int) -> None:
    from matplotlib.colors import ListedColormap

    first, second, chances, names = regions.first, regions.second, regions.chances, regions.names
    shape = (len(second), len(first))
    best = chances.argmax(axis=1).reshape(shape)
    tones = ListedColormap([CLASS_TONES[k % len(CLASS_TONES)] for k in range(len(names))])
    ax.pcolormesh(
        first, second, best, cmap=tones, vmin=-0.5, vmax=len(names) - 0.5, shading="nearest", rasterized=True,
        zorder=0,
    )  # fmt: skip
    for k in range(len(names)):
        ahead = (chances[:, k] - np.delete(chances, k, axis=1).max(axis=1)).reshape(shape)
        if ahead.min() < 0 < ahead.max():
            ax.contour(first, second, ahead, levels=[0.0], colors=INK, linewidths=1.4, zorder=place)
    if regions.sure:
        sure = chances.max(axis=1).reshape(shape)
        levels = [level for level in (0.75, 0.95) if sure.min() < level < sure.max()]
        if levels:
            style: dict[str, Any] = {"colors": "0.35", "linewidths": 0.8, "linestyles": "--"}
            lines = ax.contour(first, second, sure, levels=levels, zorder=place, **style)
            ax.clabel(lines, fmt=lambda level: f"{level:.0%}", fontsize="x-small")
    for k in np.unique(best) if regions.named else ():
        tone = CLASS_TONES[k % len(CLASS_TONES)]
        ax.plot([], [], "s", ms=8, mfc=tone, mec=INK, mew=0.9, ls="", label=plain(names[k]))


def _kinks(ax: Axes, kinks: Kinks, place: int) -> None:
    from matplotlib.collections import LineCollection

    widest = float(np.clip(24 / np.sqrt(max(len(kinks.segments), 1)) / 2, 1.0, 2.4))
    strong = np.sqrt(kinks.share)
    inches = (0.1 + 0.025 * widest**2) * (0.4 + 0.6 * strong)
    for up, style, color in ((True, "-", POSITIVE), (False, (0, (4, 2.5)), NEGATIVE)):
        of = kinks.positive == up
        segments = kinks.segments[of]
        ax.add_collection(
            LineCollection(
                list(segments), linewidths=widest * (0.15 + 0.85 * strong[of]), linestyles=[style], colors=color,
                alpha=0.75, zorder=place,
            )
        )  # fmt: skip
        if not of.any():
            continue
        ax.plot(
            [],
            [],
            color=color,
            ls="-" if up else "--",
            label=f"kink, {'positive' if up else 'negative'} weight",
        )
        # arrows of a fixed size on the page, perpendicular to the lines whatever the units of the axes
        share = 0.2 + 0.6 * ((np.arange(len(segments)) * 0.618034) % 1.0)  # at the middles they would pile up
        foot = segments[:, 0] + share[:, None] * (segments[:, 1] - segments[:, 0])
        (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
        page = kinks.slopes[of] * [(right - left) / ax.bbox.width, (top - bottom) / ax.bbox.height]
        page = page / np.linalg.norm(page, axis=1, keepdims=True) * inches[of][:, None]
        ax.quiver(
            *foot.T, *page.T, angles="uv", units="inches", scale_units="inches", scale=1.0, width=0.012, headwidth=5,
            headlength=5, headaxislength=4.5, minlength=0, color=color, zorder=place,
        )  # fmt: skip


_DRAW: dict[type, Any] = {
    Line: _line, Points: _points, Surface: _surface, Samples: _samples, Regions: _regions, Kinks: _kinks,
}  # fmt: skip
