"""matplotlib's figures as results: at plt.show(), at the end of a cell, or as a value. Each one once, then closed."""

from __future__ import annotations

import base64
import io
import sys
import weakref

from . import charts

publish = None
"""Set by the shell: the function that takes the forms of a figure."""

FORMAT = {"kind": "png", "scale": 1.0}
"""%config InlineBackend.figure_format"""

_shown = weakref.WeakSet()


def is_figure(value) -> bool:
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def forms_of(figure) -> dict:
    """Picture, chart data and text of a figure. Nothing for one without axes, as notebooks have it."""
    if not figure.axes and not figure.lines:
        return {}
    forms = {"text": repr(figure)}
    kind = FORMAT["kind"]
    picture = _render(figure, kind)
    forms[kind] = picture.decode("utf-8") if kind == "svg" else base64.b64encode(picture).decode("ascii")
    if chart := charts.from_figure(figure):
        forms["chart"] = chart
    _shown.add(figure)
    figure.stale = False
    return forms


def show(*_args, close=True, block=None, **_options) -> None:
    """plt.show(): publishes all open figures now, in the order of their numbers."""
    del block
    flush(all_of_them=True, close=close is not False)


def flush(all_of_them: bool = False, close: bool = True) -> None:
    """Publishes open figures and closes them. Figures that were a result of this cell already, and have not changed since, are not
    shown again."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is None or not helpers.Gcf.figs:
        return
    try:
        for manager in helpers.Gcf.get_all_fig_managers():
            figure = manager.canvas.figure
            if all_of_them or figure not in _shown or figure.stale:
                forms = forms_of(figure)
                if forms:
                    publish(forms)
    finally:
        if close:
            close_all()


def close_all() -> None:
    """Forgets all open figures."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers and helpers.Gcf.figs:
        helpers.Gcf.destroy_all()
    _shown.clear()


def _render(figure, kind: str) -> bytes:
    """The picture. Long lines are drawn in pieces: in one, a million points take longer, or are more than Agg can hold."""
    parameters = sys.modules["matplotlib"].rcParams
    before = parameters["agg.path.chunksize"]
    out = io.BytesIO()
    try:
        parameters["agg.path.chunksize"] = before or 20_000
        figure.savefig(
            out,
            format=kind,
            dpi=figure.dpi * FORMAT["scale"],
            facecolor=figure.get_facecolor(),
            edgecolor=figure.get_edgecolor(),
            bbox_inches="tight",
        )
    finally:
        parameters["agg.path.chunksize"] = before
    return out.getvalue()
