"""Libraries whose figures are shown as data: plotly and altair, where an image has them."""

from __future__ import annotations

import json

from . import charts

PLOTLY = "application/vnd.plotly.v1+json"
VEGA_LITE = "application/vnd.vegalite.v5+json"


def knows(value) -> bool:
    """Whether `forms` has a better answer than the value's own `_ipython_display_`, which would look for a browser."""
    return _of(value, "plotly.") and hasattr(value, "to_plotly_json") and hasattr(value, "layout")


def forms(value, result: dict) -> bool:
    """Adds the known forms of the value. True: these are all; False: the value may have more."""
    if knows(value):
        figure = json.loads(value.to_json())
        result["text"] = f"<plotly figure with {len(figure.get('data', ()))} traces>"
        result["json"] = figure
        result["chart"] = charts.from_mime(PLOTLY, figure)
        return True
    if _of(value, "altair.") and hasattr(value, "to_dict") and hasattr(value, "mark_line"):
        spec = json.loads(json.dumps(value.to_dict(), default=str))
        result["json"] = spec
        result["chart"] = charts.from_mime(VEGA_LITE, spec)
    return False


def _of(value, package: str) -> bool:
    return (type(value).__module__ or "").startswith(package)
