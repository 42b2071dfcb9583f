"""The plots on one matplotlib axes: series of points, bars, wedges, boxes and cells, read from the artists.

Histograms and box plots are told by a note that `hooks` has their makers leave on the axes: the bars and lines that they
consist of could be anything.
"""

from __future__ import annotations

import math
import sys

from . import limits
from .plain import Simplifier

NOTES = "_atoll_notes"
"""The attribute of an axes with (kind, artist that must still be there, facts)."""


class Room:
    """How many more points fit into the chart of a figure."""

    def __init__(self, points: int) -> None:
        self.left = points

    def sample(self, count: int) -> list[int] | range:
        """The indices of a series of `count` points that are taken: all, or evenly spaced with the first and the last."""
        take = min(count, self.left)
        self.left -= take
        if take == count:
            return range(count)
        if take < 2:
            return range(take)
        return [round(i * (count - 1) / (take - 1)) for i in range(take)]


def series_of(ax, room: Room) -> list[tuple[str, list[dict]]]:
    """Kinds of plot on these axes with their series; kinds in the order in which charts usually layer them."""
    if ax.name != "rectilinear":  # polar, 3d: x and y mean something else there
        return []
    found = (
        ("pie", _pies(ax)),
        ("box_and_whisker", _boxes(ax, room)),
        ("histogram", _histograms(ax, room)),
        ("bar", _bars(ax, room)),
        ("heatmap", _heatmaps(ax, room)),
        ("scatter", _scatters(ax, room)),
        ("line", _lines(ax, room)),
    )
    return [(kind, elements) for kind, elements in found if elements]


# ---- values

def number(value):
    """A number of numpy or Python as JSON has it."""
    value = float(value)
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def scale_of(axis) -> str:
    if _has_dates(axis) or _has_periods(axis):
        return "datetime"
    if _categories(axis):
        return "categorical"
    return axis.get_scale()


def on_axis(axis, value):
    """A position on an axis as its user thinks of it: a date, a category, a number."""
    try:
        if _has_dates(axis):
            return sys.modules["matplotlib.dates"].num2date(value).replace(tzinfo=None).isoformat()
        if _has_periods(axis):
            return str(sys.modules["pandas"].Period(ordinal=int(value), freq=axis.freq))
    except (ValueError, OverflowError):
        return None
    name = _categories(axis).get(value)
    return number(f"{value:.12g}") if name is None else name


def tick_names(axis) -> dict:
    """Positions of ticks and their labels."""
    return {round(float(at), 9): text.get_text() for at, text in zip(axis.get_majorticklocs(), axis.get_majorticklabels())}


def name_at(axis, names: dict, position: float) -> str:
    """The label of a position: of the tick there, or, if the labels were given by hand, of the nearest tick."""
    at = on_axis(axis, position)
    if isinstance(at, str):
        return at
    if names.get(round(float(position), 9)):
        return names[round(float(position), 9)]
    if type(axis.get_major_locator()).__name__ == "FixedLocator" and names:
        nearest = min(names, key=lambda tick: abs(tick - position))
        others = [abs(tick - nearest) for tick in names if tick != nearest]
        if abs(nearest - position) < min(others, default=1.0) / 2:
            return names[nearest]
    return _plain_number(at)


def _has_periods(axis) -> bool:
    return getattr(axis, "freq", None) is not None and "pandas" in sys.modules


def _has_dates(axis) -> bool:
    return "Date" in type(getattr(axis, "converter", None)).__name__ and "matplotlib.dates" in sys.modules


def _categories(axis) -> dict:
    units = getattr(axis, "units", None)
    mapping = getattr(units, "_mapping", None)
    return {position: name for name, position in mapping.items()} if mapping else {}


def _as_given(value):
    """A value as it was plotted: dates, periods, strings, numbers."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(value)
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        if type(value).__name__ == "datetime64":
            return str(value.astype("datetime64[s]")) if value == value else None
        return Simplifier(lenient=True).simple(value)
    return Simplifier(lenient=True).simple(value)


def _label(artist) -> str:
    text = str(artist.get_label() or "")
    return "" if text.startswith("_") else text


def _series(label: str, xs, ys, room: Room) -> dict:
    count = min(len(xs), len(ys))
    points = [[_as_given(xs[i]), _as_given(ys[i])] for i in room.sample(count)]
    element = {"label": label, "points": points}
    if len(points) < count:
        element["point_count"] = count
    return element


def _notes(ax, kind: str) -> list:
    """Facts about artists that are still on the axes."""
    present = {id(artist) for artist in (*ax.lines, *ax.patches)}
    return [(artist, facts) for noted, artist, facts in getattr(ax, NOTES, ()) if noted == kind and id(artist) in present]


# ---- kinds of plot

def _lines(ax, room: Room) -> list[dict]:
    parts = set()
    for container in ax.containers:
        if type(container).__name__ == "StemContainer":
            parts.add(id(container.baseline))
        if type(container).__name__ == "ErrorbarContainer":
            caps, bars = container.lines[1], container.lines[2]
            parts.update(id(artist) for artist in (*caps, *bars))
    for _, facts in _notes(ax, "box"):
        parts.update(facts["artists"])
    elements = []
    for line in ax.lines:
        if id(line) in parts or not line.get_visible() or line.get_transform() != ax.transData:
            continue  # axhline and the like live in the coordinates of the axes
        xs, ys = _flat(line.get_xdata(orig=True)), _flat(line.get_ydata(orig=True))
        if len(xs):
            elements.append(_series(_label(line), xs, ys, room))
    return elements


def _flat(values):
    """Something that can be asked for its i-th value: also of a pandas Series, whose own index may be anything."""
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if getattr(values, "ndim", 1) > 1:
        return values.ravel()
    return values if hasattr(values, "__getitem__") else list(values)


def _scatters(ax, room: Room) -> list[dict]:
    elements = []
    for collection in ax.collections:
        if type(collection).__name__ != "PathCollection" or not collection.get_visible():
            continue
        if collection.get_offset_transform() != ax.transData:  # filled contours are made of the same
            continue
        offsets = collection.get_offsets()
        count = len(offsets)
        points = [[on_axis(ax.xaxis, offsets[i][0]), on_axis(ax.yaxis, offsets[i][1])] for i in room.sample(count)]
        element = {"label": _label(collection), "points": points}
        if len(points) < count:
            element["point_count"] = count
        elements.append(element)
    return elements


def _bars(ax, room: Room) -> list[dict]:
    noted = {id(artist) for artist, _ in _notes(ax, "histogram")}
    elements = []
    for container in ax.containers:
        if type(container).__name__ != "BarContainer" or not container.patches or id(container.patches[0]) in noted:
            continue
        level = container.orientation == "horizontal"
        axis = ax.yaxis if level else ax.xaxis
        names = tick_names(axis)
        for i in room.sample(len(container.patches)):
            bar = container.patches[i]
            middle = bar.get_y() + bar.get_height() / 2 if level else bar.get_x() + bar.get_width() / 2
            value = bar.get_width() if level else bar.get_height()
            elements.append({"label": name_at(axis, names, middle), "group": _label(container), "value": number(value)})
    return elements


def _plain_number(value) -> str:
    return "" if value is None else f"{value:.12g}"


def _histograms(ax, room: Room) -> list[dict]:
    elements = []
    for _, facts in _notes(ax, "histogram"):
        edges, counts = facts["edges"], facts["counts"]
        for i in room.sample(len(counts)):
            low, high = on_axis(facts["axis"](ax), edges[i]), on_axis(facts["axis"](ax), edges[i + 1])
            name = f"{_plain_number(low)} to {_plain_number(high)}" if not isinstance(low, str) else f"{low} to {high}"
            elements.append({"label": name, "group": facts["label"], "value": number(counts[i]), "bin": [low, high]})
    return elements


def _boxes(ax, room: Room) -> list[dict]:
    elements = []
    for median, facts in _notes(ax, "box"):
        stats = facts["stats"]
        axis, ends = (ax.xaxis, median.get_xdata()) if facts["upright"] else (ax.yaxis, median.get_ydata())
        outliers = stats.get("fliers", ())
        element = {
            "label": name_at(axis, tick_names(axis), (ends[0] + ends[-1]) / 2),
            "min": number(stats["whislo"]),
            "first_quartile": number(stats["q1"]),
            "median": number(stats["med"]),
            "third_quartile": number(stats["q3"]),
            "max": number(stats["whishi"]),
            "outliers": [number(outliers[i]) for i in room.sample(len(outliers))],
        }
        if len(element["outliers"]) < len(outliers):
            element["point_count"] = len(outliers)
        elements.append(element)
    return elements


def _pies(ax) -> list[dict]:
    wedges = [patch for patch in ax.patches if type(patch).__name__ == "Wedge"]
    if len(wedges) > limits.CHART_POINTS_MAX:
        return []
    return [
        {"label": _label(w), "angle": number(round(w.theta2 - w.theta1, 6)), "radius": number(w.r), "fraction": round((w.theta2 - w.theta1) / 360, 9)}
        for w in wedges
    ]


def _heatmaps(ax, room: Room) -> list[dict]:
    elements = []
    for image in ax.images:
        values = image.get_array()
        if values is not None and values.ndim == 2:
            left, right, bottom, top = image.get_extent()
            facts = {"x_extent": [number(left), number(right)], "y_extent": [number(bottom), number(top)]}
            elements.append(_grid(image, values, facts, room))
    for mesh in ax.collections:
        if type(mesh).__name__ in ("QuadMesh", "PolyQuadMesh"):
            corners = mesh.get_coordinates()
            values = mesh.get_array()
            if values is None or values.size != (corners.shape[0] - 1) * (corners.shape[1] - 1):
                continue  # shaded between its corners: no cells
            values = values.reshape(corners.shape[0] - 1, corners.shape[1] - 1)
            facts = {"x_extent": [number(corners[0, 0, 0]), number(corners[0, -1, 0])], "y_extent": [number(corners[0, 0, 1]), number(corners[-1, 0, 1])]}
            elements.append(_grid(mesh, values, facts, room))
    return elements


def _grid(artist, values, facts: dict, room: Room) -> dict:
    """The cells, row by row as they were given; too many of them: only how many there are and their range."""
    rows, columns = values.shape
    low, high = artist.get_clim()
    element = {"label": _label(artist), "rows": rows, "columns": columns, **facts, "min": number(low), "max": number(high), "values": []}
    bar = getattr(artist, "colorbar", None)
    if bar is not None:
        element["value_label"] = bar.ax.get_ylabel() or bar.ax.get_xlabel()
    if rows * columns <= room.left:
        room.left -= rows * columns
        filled = values.filled(math.nan) if hasattr(values, "filled") and values.dtype.kind == "f" else values
        element["values"] = [[number(cell) if cell is not None else None for cell in row] for row in filled.tolist()]
    else:
        element["point_count"] = rows * columns
    return element
