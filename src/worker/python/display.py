"""Rich results: which forms a value has, and their way to the client.

A value's own forms go first (`_repr_mimebundle_`, `_repr_html_` …), then the forms that we know for pandas, matplotlib and plain
containers. A form that fails is reported on stderr and left out; if even repr() fails the run fails with that error.
"""

from __future__ import annotations

import base64
import json
import sys

from . import charts, figures, interrupts, libraries, limits, pretty, streams
from .errors import bounded, format_lines
from .plain import NotPlain, Simplifier, encode, encode_text

FIELDS = {
    "text/plain": "text", "text/html": "html", "image/png": "png", "image/jpeg": "jpeg", "image/svg+xml": "svg",
    "text/latex": "latex", "text/markdown": "markdown", "application/javascript": "javascript", "application/json": "json",
}  # fmt: skip
"""MIME types and the fields of a result that carry them. Others go into `data`, by their MIME type."""

METHODS = {
    "_repr_html_": "html", "_repr_markdown_": "markdown", "_repr_svg_": "svg", "_repr_png_": "png", "_repr_jpeg_": "jpeg",
    "_repr_latex_": "latex", "_repr_json_": "json", "_repr_javascript_": "javascript",
}  # fmt: skip

_PLAIN_TYPES = frozenset((int, float, str, bool, bytes, complex, type(None)))
_channel = None


class Publisher:
    """Something that takes results instead of the client: %%capture. The innermost is the last."""

    taking: list = []


def install(channel) -> None:
    """Once per process."""
    global _channel
    _channel = channel


def display(*values, include=None, exclude=None, metadata=None, raw=False, display_id=None, **_options):
    """Shows values in all the forms that they have: text, HTML, images … `raw`: the values are dicts of MIME types."""
    for value in values:
        if raw:
            publish(from_bundle(value, metadata or {}, {}))
        else:
            show(value, True, include, exclude)
    return Handle() if display_id else None


class Handle:
    """The return value of display(…, display_id=True). An update is one more result."""

    def display(self, value, **options) -> None:
        display(value, **options)

    update = display


def show(value, more: bool, include=None, exclude=None) -> None:
    """Publishes one value. `more`: the run goes on after it."""
    if not isinstance(value, type) and _method(value, "_ipython_display_") and not libraries.knows(value):
        value._ipython_display_()
        return
    publish(forms_of(value, include, exclude), more)


def publish(forms: dict, more: bool = True) -> None:
    """Sends one result: fields as display.FIELDS names them, and metadata."""
    if Publisher.taking:
        Publisher.taking[-1].append(forms)
        return
    streams.flush()
    _channel.result(event_of(forms), more)


def event_of(forms: dict) -> str:
    """A result as one JSON object. Fields that do not fit into a frame are left out and named."""
    metadata = forms.pop("metadata", None) or {}
    parts, size, omitted = ['"type":"result"'], 0, list(forms.pop("omitted", ()))
    for name, value in forms.items():
        try:
            text = encode_text(value, limits.FRAME_MAX - size) if name == "text" else encode(value)
        except (NotPlain, ValueError, RecursionError):
            omitted.append(name)
            continue
        if size + len(text) > limits.FRAME_MAX:
            omitted.append(name)
            continue
        size += len(text)
        parts.append(f'"{name}":{text}')
    if omitted:
        metadata = {**metadata, "omitted": omitted}
    try:
        parts.append('"metadata":' + (encode(metadata) if metadata else "{}"))
    except (NotPlain, ValueError, RecursionError):
        parts.append('"metadata":{}')
    return "{" + ",".join(parts) + "}"


def forms_of(value, include=None, exclude=None) -> dict:
    """All forms of a value. Raises what its __repr__ raises, when there is no other form of it."""
    if type(value) in _PLAIN_TYPES:
        return {"text": repr(value)}
    forms, failure, metadata = {}, None, {}
    try:
        forms["text"] = pretty.pretty(value)
    except Exception as error:  # noqa: BLE001
        failure = error
    if not isinstance(value, type) and not _attempt(libraries.forms, value, forms):
        _own_forms(value, forms, metadata, include, exclude)
        _known_forms(value, forms)
    if failure:
        if not forms:
            raise failure
        complain(failure)
    if metadata:
        forms["metadata"] = {**metadata, **forms.get("metadata", {})}
    return forms


def _own_forms(value, forms: dict, metadata: dict, include, exclude) -> None:
    """The forms that the value itself offers."""
    method = _method(value, "_repr_mimebundle_")
    bundle = _attempt(method, include=include, exclude=exclude) if method else None
    if bundle is not None:
        data, more = bundle if isinstance(bundle, tuple) else (bundle, {})
        if isinstance(data, dict):
            from_bundle(data, more, forms)
    for name, field in METHODS.items():
        method = None if field in forms else _method(value, name)
        form = _attempt(method) if method else None
        if isinstance(form, tuple) and len(form) == 2 and isinstance(form[1], dict):
            form, extra = form
            metadata.update(extra)
        if form is not None:
            _put(forms, field, form)


def _known_forms(value, forms: dict) -> None:
    """Forms for types that offer few themselves."""
    if isinstance(value, (dict, list)) and "json" not in forms:
        try:
            forms["json"] = Simplifier().simple(value)
        except (NotPlain, ValueError, RecursionError):
            pass
        return
    kind = type(value).__module__ or ""
    if kind.startswith("pandas."):
        _attempt(_pandas_forms, value, forms)
    elif kind.startswith("matplotlib.") and figures.is_figure(value):
        figure = _attempt(figures.forms_of, value)
        if figure:
            forms.update(figure)
    elif kind.startswith("PIL.") and "png" not in forms and hasattr(value, "save"):
        png = _attempt(_pil_png, value)
        if png:
            forms["png"] = png


def _pandas_forms(value, forms: dict) -> None:
    pandas = sys.modules["pandas"]
    if isinstance(value, pandas.Series):
        forms.setdefault("html", value.to_frame()._repr_html_())
        cells, columns = value.size, {str(value.name if value.name is not None else 0): value}
    elif isinstance(value, pandas.DataFrame):
        cells, columns = value.size, None
    else:
        return
    if cells > limits.TABLE_CELLS_MAX:
        forms["omitted"] = ["data"]
        return
    if columns is None and not value.columns.is_unique:
        forms["omitted"] = ["data"]
        return
    if columns is None:
        columns = {str(name): value.iloc[:, i] for i, name in enumerate(value.columns)}
    table = Simplifier(lenient=True)
    forms["data"] = {name: table.simple(column.tolist()) for name, column in columns.items()}


def _pil_png(image) -> str:
    import io

    out = io.BytesIO()
    image.save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode("ascii")


def from_bundle(bundle: dict, metadata: dict, forms: dict) -> dict:
    """Adds a dict of MIME types to the forms of a result."""
    for mime, data in bundle.items():
        if mime in FIELDS:
            _put(forms, FIELDS[mime], data)
        elif not isinstance(mime, str):
            continue
        elif chart := charts.from_mime(mime, data):
            forms["chart"] = chart
            forms.setdefault("json", data)
        elif mime != "application/vnd.jupyter.widget-view+json":
            forms.setdefault("data", {})[mime] = base64.b64encode(data).decode("ascii") if isinstance(data, bytes) else data
    if metadata:
        forms.setdefault("metadata", {}).update(metadata)
    return forms


def _put(forms: dict, field: str, data) -> None:
    if field == "json":
        if isinstance(data, str):  # JSON text is taken as what it says
            try:
                data = json.loads(data)
            except ValueError:
                pass
        forms[field] = data
    elif isinstance(data, (bytes, bytearray, memoryview)):
        forms[field] = bytes(data).decode("utf-8", "replace") if field in ("svg", "html") else base64.b64encode(data).decode("ascii")
    else:
        forms[field] = str(data)


def _method(value, name: str):
    """A method that the value really has. Some objects answer to every name."""
    interrupts.hold_others()  # what a handler raises says nothing about the value
    try:
        if getattr(value, "_atoll_canary_that_does_not_exist_", None) is not None:
            return None
        method = getattr(value, name, None)
        return method if callable(method) else None
    except Exception:  # noqa: BLE001
        return None
    finally:
        interrupts.free_others()


def _attempt(function, *args, **options):
    """The function's answer, or None after a report on stderr."""
    try:
        return function(*args, **options)
    except NotImplementedError:
        return None
    except Exception as error:  # noqa: BLE001
        complain(error)
        return None


def complain(error: BaseException) -> None:
    """An error that does not end the run, on stderr."""
    try:
        print("\n".join(bounded(format_lines(error))), file=sys.stderr)
    except (ValueError, OSError, AttributeError):
        pass
