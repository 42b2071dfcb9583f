"""Rich results of Python contexts: every form of a value, tables, figures, and values that cannot be shown."""

import base64
import json
import struct


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


def png_size(result):
    data = base64.b64decode(result["png"], validate=True)
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and data.endswith(b"IEND\xaeB`\x82"), "a whole picture"
    return struct.unpack(">II", data[16:24])


def test_every_repr_is_a_field(python):
    code = """
class All:
    def __repr__(self): return "plain"
    def _repr_html_(self): return "<b>h</b>"
    def _repr_markdown_(self): return "# m"
    def _repr_svg_(self): return "<svg/>"
    def _repr_png_(self): return b"\\x89PNG\\r\\n\\x1a\\n"
    def _repr_jpeg_(self): return b"\\xff\\xd8"
    def _repr_latex_(self): return "$x$"
    def _repr_json_(self): return {"j": [1, float("nan")]}
    def _repr_javascript_(self): return "alert(1)"
All()
"""
    result = python(code).result
    assert {k: v for k, v in result.items() if k != "type"} == {
        "text": "plain", "html": "<b>h</b>", "markdown": "# m", "svg": "<svg/>", "png": PNG, "jpeg": "/9g=", "latex": "$x$",
        "json": {"j": [1, None]}, "javascript": "alert(1)", "metadata": {},
    }  # fmt: skip


def test_mimebundles(python):
    python("class M:\n    def __init__(self, *b): self.b = b\n"
           "    def _repr_mimebundle_(self, include=None, exclude=None): return self.b if len(self.b) > 1 else self.b[0]")
    result = python("M({'text/plain': 'p', 'text/html': '<i>', 'application/x-own': {'a': 1}}, {'isolated': True})").result
    assert (result["text"], result["html"], result["data"], result["metadata"]) == ("p", "<i>", {"application/x-own": {"a": 1}}, {"isolated": True})
    # As plotly and altair describe their figures.
    plotly = python("M({'application/vnd.plotly.v1+json': {'data': [{'type': 'bar', 'x': ['a'], 'y': [1]}], 'layout': {'title': {'text': 'T'}}}})").result
    assert plotly["chart"]["type"] == "bar" and plotly["chart"]["title"] == "T" and plotly["chart"]["library"] == "plotly"
    assert plotly["json"]["data"] == plotly["chart"]["data"] == [{"type": "bar", "x": ["a"], "y": [1]}]
    vega = python("M({'application/vnd.vegalite.v5+json': {'mark': {'type': 'point'}, 'data': {'values': []}}, 'text/plain': 'chart'})").result
    assert vega["chart"]["type"] == "scatter" and vega["chart"]["library"] == "altair" and vega["json"]["mark"] == {"type": "point"}


def test_display(python):
    run = python("display(1, 'two'); display({'text/html': '<p>'}, raw=True); h = display(3, display_id=True); h.update(4)")
    assert [r.get("text", r.get("html")) for r in run.results] == ["1", "'two'", "<p>", "3", "4"]
    run = python("class D:\n    def _ipython_display_(self): print('by itself')\nD()")
    assert run.stdout == "by itself\n" and run.results == []


def test_display_of_ipython(python):
    run = python("from IPython.display import display as show, HTML, Markdown, Image, JSON, SVG, Latex, clear_output\n"
                 "show(HTML('<b>'), Markdown('# h'))\nclear_output()\nJSON({'a': 1})")
    assert [next(r[f] for f in ("html", "markdown", "json") if f in r) for r in run.results] == ["<b>", "# h", {"a": 1}]


def test_json_of_containers(python):
    result = python("{'a': [1, 2.5, None, True, 'x', (1, 2)], 3: float('inf'), 'n': float('-inf')}").result
    assert result["json"] == {"a": [1, 2.5, None, True, "x", [1, 2]], "3": None, "n": None}
    assert python("import numpy as np\n[np.int64(3), np.float32(0.5), np.nan, np.arange(2)]").result["json"] == [3, 0.5, None, [0, 1]]
    assert "json" not in python("{'o': object}").result
    assert "json" not in python("l = []; l.append(l); l").result
    assert "json" not in python("[0] * 300_000").result, "bounded"
    assert python("[10 ** 400]").result.get("json") is None
    assert "json" not in python("'a string'").result


def test_long_reprs_are_bounded(python):
    text = python("list(range(100_000))").result["text"]
    assert text.startswith("[0,\n 1,") and text.endswith("999,\n ...]") and text.count("\n") == 1000
    assert python("{'k' * 30: list(range(30))}").result["text"].count("\n") == 29
    assert python("[1, 'a', {2: 3}]").result["text"] == "[1, 'a', {2: 3}]"
    assert python("import numpy as np\nnp.arange(100_000)").result["text"] == "array([    0,     1,     2, ..., 99997, 99998, 99999])"


def test_names_instead_of_addresses(python):
    assert python("int, {1: str}").result["text"] == "(int, {1: str})"
    assert python("class C:\n    def m(self, a, b=1): pass\nC, C.m").result["text"] == "(__main__.C, <function __main__.C.m(self, a, b=1)>)"
    text = "from collections import *\n[defaultdict(list, {1: [2]}), OrderedDict(a=1), Counter('aab'), deque([1]), {3, 1, 2}, (1,), set()]"
    assert python(text).result["text"] == ("[defaultdict(list, {1: [2]}),\n OrderedDict({'a': 1}),\n Counter({'a': 2, 'b': 1}),\n"
                                           " deque([1]),\n {1, 2, 3},\n (1,),\n set()]")


def test_values_that_cannot_be_shown(python):
    error = python.fails("class R:\n    def __repr__(self): raise RuntimeError('no text')\nr = R(); r", "RuntimeError")
    assert error["evalue"] == "no text"
    run = python("class H:\n    def _repr_html_(self): return 1/0\n    def _repr_latex_(self): return '$ok$'\nH()")
    assert run.result["latex"] == "$ok$" and "html" not in run.result and "ZeroDivisionError" in run.stderr
    run = python("class B(R):\n    def _repr_html_(self): return '<b>'\nB()")
    assert run.result["html"] == "<b>" and "RuntimeError: no text" in run.stderr
    # One that has every attribute has none of these.
    assert list(python("class Any:\n    def __getattr__(self, n): return lambda *a, **k: 'x'\n"
                       "    def __repr__(self): return 'any'\nAny()").result) == ["type", "text", "metadata"]
    assert python("class K:\n    def _repr_html_(self): return 'of an instance'\nK").result.get("html") is None
    assert python("1").result["text"] == "1"


def test_pandas(python):
    result = python("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': [float('nan'), 'x'], 'c': pd.to_datetime(['2024-01-02', None])})").result
    assert "<table" in result["html"] and result["text"].splitlines()[0].split() == ["a", "b", "c"]
    assert result["data"] == {"a": [1, 2], "b": [None, "x"], "c": ["2024-01-02T00:00:00", None]}
    result = python("pd.Series([1, 2], name='s')").result
    assert "<table" in result["html"] and "Name: s" in result["text"] and result["data"] == {"s": [1, 2]}
    result = python("pd.DataFrame([[0] * 10] * 20_000)").result
    assert "data" not in result and result["metadata"] == {"omitted": ["data"]} and "20000 rows" in result["text"]
    result = python("pd.DataFrame({'a': [1]}).groupby('a').size()").result
    assert "<table" in result["html"]


def test_figures_without_show(python):
    run = python("import matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    width, height = png_size(run.result)
    assert 300 < width < 700 and 300 < height < 500 and run.result["text"] == "<Figure size 640x480 with 1 Axes>"
    assert run.result["chart"]["type"] == "line"
    assert python("plt.get_fignums()").result["text"] == "[]", "closed after the cell"
    assert python("1 + 1").result["text"] == "2", "and not shown again"


def test_figures_and_show_in_order(python):
    code = ("import matplotlib.pyplot as plt\nprint('a')\nplt.plot([1]); plt.show()\nprint('b')\nplt.figure(); plt.bar(['x'], [1])\n"
            "plt.figure(); plt.pie([1])\nprint('c')\n'value'")
    run = python(code)
    figure = "<Figure size 640x480 with 1 Axes>"
    assert [kind if kind != "result" else text for kind, text in run.order()] == ["stdout", figure, "stdout", "'value'", figure, figure]
    assert [r["chart"]["type"] for r in run.results if "png" in r] == ["line", "bar", "pie"]


def test_a_figure_as_value_is_shown_once(python):
    run = python("import matplotlib; matplotlib.use('Agg')\nimport matplotlib.pyplot as plt\nfig, ax = plt.subplots(figsize=(2, 1))\nax.plot([1])\nfig")
    assert png_size(run.result)[0] < 300
    assert len(python("fig, ax = plt.subplots(); display(fig)").results) == 1
    assert len(python("fig, ax = plt.subplots(); display(fig); ax.plot([1]);").results) == 2, "changed after it was shown"
    assert python("fig = plt.figure();").results == [], "nothing on it"
    assert "png" in python("fig, ax = plt.subplots(); plt.close(); fig").result
    # A failing cell still shows what it has drawn.
    run = python.run("plt.plot([1]); 1/0")
    assert [e["type"] for e in run.events] == ["result", "error", "execution_complete"]


def test_the_formats_of_figures(python):
    python("%matplotlib inline\n%config InlineBackend.figure_format = 'svg'\nimport matplotlib.pyplot as plt")
    assert "<svg" in python("plt.plot([1]);").result["svg"]
    python("%config InlineBackend.figure_format = 'retina'")
    assert png_size(python("plt.plot([1]);").result)[0] > 900


def test_a_figure_of_a_million_points(python):
    run = python("import numpy as np, matplotlib.pyplot as plt\nplt.plot(np.sin(np.arange(10**6) / 1e5)); plt.scatter(np.arange(10**6), np.zeros(10**6), s=1);")
    png_size(run.result)
    chart = run.result["chart"]
    assert chart["type"] == "superchart" and len(json.dumps(chart)) < 1_000_000
    scatter, line = chart["elements"]
    assert scatter["elements"][0]["point_count"] == line["elements"][0].get("point_count") == 10**6


def test_images_of_pillow(python):
    result = python("from PIL import Image\nImage.new('RGB', (3, 2), 'red')").result
    assert png_size(result) == (3, 2)


def test_what_does_not_fit_is_cut_or_named(python):
    run = python("class T:\n    def __repr__(self): return 'x' * 40_000_000\nT()")
    assert len(run.result["text"]) < 34_000_000 and run.result["text"].endswith("more characters]")
    run = python("class H:\n    def __repr__(self): return 'small'\n    def _repr_html_(self): return '<' * 70_000_000\nH()")
    assert run.result["text"] == "small" and "html" not in run.result and run.result["metadata"] == {"omitted": ["html"]}
