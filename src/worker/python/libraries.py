"""Libraries whose figures are shown as data: plotly. (Altair says all about itself with `_repr_mimebundle_`.)"""

import json

from . import charts

PLOTLY = "application/vnd.plotly.v1+json"


def knows(value) -> bool:
    """Whether `forms` has a better answer than the value's own `_ipython_display_`, which would look for a browser."""
    return (type(value).__module__ or "").startswith("plotly.") and hasattr(value, "to_plotly_json") and hasattr(value, "layout")


def forms(value, result: dict) -> bool:
    """Adds what is known about the value; False if nothing is."""
    if not knows(value):
        return False
    figure = json.loads(value.to_json())
    result["text"] = f"<plotly figure with {len(figure.get('data', ()))} traces>"
    result["json"] = figure
    result["chart"] = charts.from_mime(PLOTLY, figure)
    return True
