"""Patches libraries when they are imported: matplotlib draws without a screen and shows into results, and
IPython's display functions are ours.

A finder in front of the others sees the import, lets them find the module and patches it after it has run. Nothing is
imported here.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys

from . import axes, display, errors, figures


class _Loader:
    """Runs a module by its own loader, then patches it."""

    def __init__(self, inner, patch) -> None:
        self.inner, self.patch = inner, patch

    def create_module(self, spec):
        return self.inner.create_module(spec)

    def exec_module(self, module) -> None:
        module.__loader__ = module.__spec__.loader = self.inner
        self.inner.exec_module(module)
        self.patch(module)


class Finder:
    """First in sys.meta_path."""

    def __init__(self) -> None:
        self.busy: set[str] = set()

    def find_spec(self, name, path=None, target=None):
        patch = PATCHES.get(name)
        if patch is None or name in self.busy:
            return None
        del path, target
        self.busy.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy.discard(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, patch)
        return spec


def install() -> None:
    """Once per process, before any of the libraries is imported; or after, then they are patched now."""
    if any(type(finder).__name__ == "Finder" and type(finder).__module__ == __name__ for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, Finder())
    for name, patch in PATCHES.items():
        if name in sys.modules:
            patch(sys.modules[name])


def _matplotlib(module) -> None:
    if not os.environ.get("MPLBACKEND"):
        module.use("agg")


def _pyplot(module) -> None:
    module.show = figures.show


def _axes(module) -> None:
    _wrap(module.Axes, "hist", _note_histogram)
    _wrap(module.Axes, "bxp", _note_boxes)


def _wrap(cls, name: str, note) -> None:
    original = getattr(cls, name)

    @functools.wraps(original)
    def wrapped(self, *args, **options):
        result = original(self, *args, **options)
        try:
            note(self, result, args, options)
        except Exception:  # noqa: BLE001 (a newer matplotlib: then there is no note, and no wrong one either)
            pass
        return result

    setattr(cls, name, wrapped)


def _note(ax, kind: str, artist, **facts) -> None:
    ax.__dict__.setdefault(axes.NOTES, []).append((kind, artist, facts))


def _note_histogram(ax, result, args, options) -> None:
    del args
    counts, edges, patches = result
    many = getattr(counts, "ndim", 1) == 2 or isinstance(counts, list)
    axis = _y_axis if options.get("orientation") == "horizontal" else _x_axis
    for values, drawn in zip(counts, patches) if many else [(counts, patches)]:
        label = str(drawn.get_label() if hasattr(drawn, "get_label") else drawn[0].get_label())
        if hasattr(drawn, "patches") and str(drawn.patches[0].get_label()) != "_nolegend_":
            label = str(drawn.patches[0].get_label())
        label = "" if label.startswith("_") or label == "None" else label
        _note(ax, "histogram", drawn[0], edges=edges, counts=values, label=label, axis=axis)


def _x_axis(ax):
    return ax.xaxis


def _y_axis(ax):
    return ax.yaxis


def _note_boxes(ax, result, args, options) -> None:
    stats = args[0] if args else options["bxpstats"]
    artists = {id(line) for part in result.values() for line in part}
    for box, median in zip(stats, result["medians"]):
        _note(ax, "box", median, stats=box, upright=_upright(options), artists=artists)


def _upright(options: dict) -> bool:
    return options.get("vert", True) is not False and options.get("orientation") != "horizontal"


def _ipython_functions(module) -> None:
    module.display = display.display
    module.publish_display_data = lambda data, metadata=None, **_: display.publish(display.from_bundle(data, metadata or {}, {}))
    module.clear_output = lambda wait=False: None
    module.update_display = lambda value, **options: display.display(value)


def _ipython_display(module) -> None:
    functions = sys.modules.get("IPython.core.display_functions")
    for name in ("display", "publish_display_data", "clear_output", "update_display"):
        if functions and hasattr(module, name):
            setattr(module, name, getattr(functions, name))


def _plotly(module) -> None:
    module.renderers.default = "plotly_mimetype"


def _getpass(module) -> None:
    def getpass(prompt="Password: ", stream=None):
        raise errors.StdinNotImplementedError("getpass() was called, but code runs without a terminal: nobody can answer")

    module.getpass = getpass


PATCHES = {
    "matplotlib": _matplotlib,
    "matplotlib.pyplot": _pyplot,
    "matplotlib.axes._axes": _axes,
    "IPython.core.display_functions": _ipython_functions,
    "IPython.core.display": _ipython_display,
    "IPython.display": _ipython_display,
    "plotly.io._renderers": _plotly,
    "getpass": _getpass,
}
