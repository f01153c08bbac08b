"""Pictures by matplotlib: one function for each kind of layer, and the axes around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.optional import required
from covopt.plotting.pictures import INK, TONES, Line, Picture, Points, Surface

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DPI = 150
STYLES = ("-", "--", ":", "-.")
MOST_TICKS = 5  # of an axis, so that labels of seven digits do not run into each other


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
    linear = required("matplotlib.ticker", "drawing", "plot").MaxNLocator
    for name in {"x", "y"} - set(picture.logs):
        locator = getattr(ax, f"{name}axis").get_major_locator()
        if isinstance(locator, linear):  # axes of users may have ticks of their own
            locator.set_params(nbins=MOST_TICKS, integer=name in picture.whole)
    for name in picture.logs:
        getattr(ax, f"set_{name}scale")("log")
    if picture.xticks is not None:
        ax.set_xticks(picture.xticks)
    if picture.yticks is not None:
        ax.set_yticks(picture.yticks)
    if picture.columns:
        below = (0.5, -0.14)  # the axes, where it hides nothing
        ax.legend(
            fontsize="small", loc="upper center", bbox_to_anchor=below, ncols=picture.columns, frameon=False
        )
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
    if np.ndim(points.size) or points.values is not None:
        valued = {"c": points.values, "cmap": _tones(), "vmin": points.scale[0], "vmax": points.scale[1]}
        ax.scatter(
            points.x, points.y, s=np.asarray(points.size) ** 2, marker=points.symbol, edgecolors=points.edge,
            linewidths=0.9, zorder=place, label=label,
            **({"facecolors": points.face} if points.values is None else valued),
        )  # fmt: skip
        return
    ax.plot(
        points.x, points.y, points.symbol, ms=points.size, mfc=points.face, mec=points.edge, mew=0.9,
        ls="-" if points.joined else "", color="0.4", lw=0.8, zorder=place, label=label,
    )  # fmt: skip


def _tones() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("tones", TONES)


def _surface(ax: Axes, surface: Surface, place: int) -> None:
    levels, (low, high) = surface.levels(), surface.scale
    filled = ax.contourf(
        surface.first, surface.second, surface.values, levels=levels, cmap=_tones(), vmin=low, vmax=high,
        extend="both",
    )  # fmt: skip
    if surface.wall is not None:
        ax.contour(
            surface.first, surface.second, surface.values, levels=[surface.wall], colors=INK, linewidths=1.6,
            zorder=place,
        )  # fmt: skip
    ax.figure.colorbar(
        filled,
        ax=ax,
        label=plain(surface.name),
        pad=0.02,
        ticks=levels[np.round(levels / (levels[1] - levels[0])) % 2 == 0],
    )


_DRAW: dict[type, Any] = {Line: _line, Points: _points, Surface: _surface}
