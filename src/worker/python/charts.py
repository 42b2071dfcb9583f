"""Structured chart data, the `chart` of a result.

    {type, title, library, data, elements, layout, x_label, y_label, x_unit, y_unit, x_ticks, x_tick_labels, x_scale, y_…}

`type`, `title`, `data`, `layout` and `library` are upstream's names; `elements` (the same list as `data`) and the names of axes are those
that E2B's users know. Several axes, or several kinds of plot on one, are a `superchart` whose elements are charts. A figure that
cannot be read for certain gives no chart.
"""

from __future__ import annotations

import re

from . import axes, limits

_POWER = re.compile(r"^\$\\mathdefault\{(.*)\^\{(.*)\}\}\$$")
_UNIT = re.compile(r"[(\[]([^()\[\]]+)[)\]]\s*$")


def from_figure(figure) -> dict | None:
    """The chart of a matplotlib figure, after it has been drawn; None if there is nothing to say."""
    room = axes.Room(limits.CHART_POINTS_MAX)
    found = []
    try:
        for ax in figure.axes:
            if ax.get_visible() and ax.get_label() != "<colorbar>":
                found += [_chart(ax, kind, elements) for kind, elements in axes.series_of(ax, room)]
        title = figure._suptitle.get_text() if figure._suptitle else ""
    except Exception:  # noqa: BLE001 (an artist of another kind than it seems: the picture is there, the data is not)
        return None
    if not found:
        return None
    if len(found) == 1:
        found[0]["title"] = found[0]["title"] or title
        return found[0]
    title = title or _shared(found, "title")
    return {"type": "superchart", "title": title, "library": "matplotlib", "data": found, "elements": found}


def _shared(found: list[dict], name: str) -> str:
    """The common part of all charts: layers of one plot."""
    values = {chart[name] for chart in found}
    return values.pop() if len(values) == 1 else ""


def _chart(ax, kind: str, elements: list) -> dict:
    chart = {"type": kind, "title": ax.get_title() or ax.get_title("left") or ax.get_title("right"), "library": "matplotlib"}
    if kind != "pie":
        chart["layout"] = {name: _axis(ax, name) for name in ("x", "y")}
        for name, axis in chart["layout"].items():
            chart.update({f"{name}_{key}": value for key, value in axis.items()})
    chart["data"] = chart["elements"] = elements
    return chart


def _axis(ax, name: str) -> dict:
    axis = getattr(ax, name + "axis")
    low, high = sorted(axis.get_view_interval())
    label = axis.get_label_text()
    unit = _UNIT.search(label)
    positions, texts = [], []
    for position, text in zip(axis.get_majorticklocs(), axis.get_majorticklabels()):
        if low <= position <= high:
            positions.append(axes.on_axis(axis, position))
            texts.append(_POWER.sub(r"\1^\2", text.get_text()))
    return {
        "label": label,
        "unit": unit.group(1) if unit else None,
        "scale": axes.scale_of(axis),
        "ticks": positions,
        "tick_labels": texts,
    }


# ---- charts that other libraries describe themselves

_PLOTLY_KINDS = {"bar": "bar", "pie": "pie", "histogram": "histogram", "heatmap": "heatmap", "box": "box_and_whisker"}
_VEGA_KINDS = {"line": "line", "bar": "bar", "point": "scatter", "circle": "scatter", "square": "scatter", "arc": "pie", "rect": "heatmap",
               "boxplot": "box_and_whisker"}  # fmt: skip


def from_mime(mime: str, value) -> dict | None:
    """The chart in a plotly or Vega-Lite document."""
    if not isinstance(value, dict):
        return None
    if mime.startswith("application/vnd.plotly.v"):
        return _from_plotly(value)
    if mime.startswith(("application/vnd.vegalite.v", "application/vnd.vega.v")):
        return _from_vega(value)
    return None


def _from_plotly(figure: dict) -> dict:
    traces = [trace for trace in figure.get("data") or () if isinstance(trace, dict)]
    layout = figure.get("layout") or {}
    title = layout.get("title") if isinstance(layout, dict) else None
    title = title.get("text") if isinstance(title, dict) else title
    kinds = {_plotly_kind(trace) for trace in traces}
    kind = kinds.pop() if len(kinds) == 1 else "unknown"
    chart = {"type": kind, "title": title or "", "library": "plotly", "data": figure.get("data"), "layout": layout}
    if figure.get("config"):
        chart["config"] = figure["config"]
    return chart


def _plotly_kind(trace: dict) -> str:
    kind = trace.get("type", "scatter")
    if kind in ("scatter", "scattergl"):
        return "scatter" if trace.get("mode") == "markers" else "line"
    return _PLOTLY_KINDS.get(kind, "unknown")


def _from_vega(spec: dict) -> dict:
    mark = spec.get("mark")
    mark = mark.get("type") if isinstance(mark, dict) else mark
    title = spec.get("title")
    title = title.get("text") if isinstance(title, dict) else title
    return {"type": _VEGA_KINDS.get(mark, "unknown"), "title": title or "", "library": "altair", "data": spec}
