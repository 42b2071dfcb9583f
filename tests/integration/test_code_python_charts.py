"""Structured chart data of matplotlib's figures."""

import pytest
from codeapi import Context


@pytest.fixture(scope="module")
def chart(code_api):
    """The chart of the one figure that code draws."""
    context = Context(code_api)
    context("import datetime as dt, matplotlib.pyplot as plt, numpy as np, pandas as pd")

    def of(code):
        figures = [r for r in context(code).results if "png" in r]
        assert len(figures) == 1
        return figures[0].get("chart")

    return of


def test_line(chart):
    c = chart("plt.plot([1, 2, 3], [4, 5, float('nan')], label='a'); plt.plot([1, 2], [3, 4]); plt.title('Title'); "
              "plt.xlabel('time (s)'); plt.ylabel('speed'); plt.axhline(4)")
    assert (c["type"], c["title"], c["library"]) == ("line", "Title", "matplotlib")
    assert c["data"] == c["elements"] == [{"label": "a", "points": [[1, 4], [2, 5], [3, None]]}, {"label": "", "points": [[1, 3], [2, 4]]}]
    assert (c["x_label"], c["x_unit"], c["y_label"], c["y_unit"]) == ("time (s)", "s", "speed", None)
    assert (c["x_scale"], c["x_ticks"][:2], c["x_tick_labels"][:2]) == ("linear", [1, 1.2], ["1.0", "1.2"])
    assert c["layout"]["x"]["label"] == "time (s)" and c["layout"]["y"]["ticks"] == c["y_ticks"]


def test_scatter(chart):
    c = chart("plt.scatter([1, 10], [3, 4], label='s'); plt.xscale('log');")
    assert c["type"] == "scatter" and c["elements"] == [{"label": "s", "points": [[1, 3], [10, 4]]}]
    assert c["x_scale"] == "log" and c["x_tick_labels"] == ["10^0", "10^1"]


def test_bar(chart):
    c = chart("plt.bar(['a', 'b'], [1, 2.5], label='g');")
    assert c["type"] == "bar" and c["x_scale"] == "categorical" and c["x_ticks"] == ["a", "b"]
    assert c["elements"] == [{"label": "a", "group": "g", "value": 1}, {"label": "b", "group": "g", "value": 2.5}]
    c = chart("plt.barh(['a', 'b'], [1, 2]);")
    assert [(e["label"], e["value"]) for e in c["elements"]] == [("a", 1), ("b", 2)]
    c = chart("pd.DataFrame({'m': [1, 2], 'n': [3, 4]}, index=['x', 'y']).plot.bar();")
    assert [(e["label"], e["group"], e["value"]) for e in c["elements"]] == [("x", "m", 1), ("y", "m", 2), ("x", "n", 3), ("y", "n", 4)]


def test_pie(chart):
    c = chart("plt.pie([1, 3], labels=['a', 'b'], autopct='%d'); plt.title('P')")
    assert (c["type"], c["title"]) == ("pie", "P")
    assert c["elements"] == [{"label": "a", "angle": 90, "radius": 1, "fraction": 0.25}, {"label": "b", "angle": 270, "radius": 1, "fraction": 0.75}]


def test_histogram(chart):
    c = chart("plt.hist([0, 1, 1, 2, 2, 2], bins=[0, 1, 2, 3], label='h');")
    assert c["type"] == "histogram"
    assert [(e["bin"], e["value"], e["group"]) for e in c["elements"]] == [([0, 1], 1, "h"), ([1, 2], 2, "h"), ([2, 3], 3, "h")]
    c = chart("plt.hist([[0, 0.5], [1.5]], bins=[0, 1, 2], label=['a', 'b']);")
    assert [(e["bin"], e["value"], e["group"]) for e in c["elements"]] == [([0, 1], 2, "a"), ([1, 2], 0, "a"), ([0, 1], 0, "b"), ([1, 2], 1, "b")]
    assert chart("plt.bar([0.5, 1.5], [1, 2], width=1);")["type"] == "bar", "bars that touch are not a histogram"
    assert chart("plt.hist([1]); plt.cla(); plt.plot([1]);")["type"] == "line", "what is gone is not told"


def test_heatmap(chart):
    c = chart("plt.imshow([[0, 1, 2], [3, 4, float('nan')]]); plt.colorbar(label='heat');")
    (grid,) = c["elements"]
    assert c["type"] == "heatmap" and grid["values"] == [[0, 1, 2], [3, 4, None]] and grid["value_label"] == "heat"
    assert (grid["rows"], grid["columns"], grid["min"], grid["max"]) == (2, 3, 0, 4)
    c = chart("plt.pcolormesh([0, 1, 2], [0, 10, 20], [[1, 2], [3, 4]]);")
    assert c["elements"][0]["values"] == [[1, 2], [3, 4]] and c["elements"][0]["y_extent"] == [0, 20]
    c = chart("plt.imshow(np.zeros((400, 400)));")
    assert c["elements"][0]["values"] == [] and c["elements"][0]["point_count"] == 160_000


def test_box_plot(chart):
    c = chart("plt.boxplot([[1, 2, 3, 10, 50], [2, 3, 4]], labels=['p', 'q']);")
    assert c["type"] == "box_and_whisker"
    assert c["elements"][0] == {"label": "p", "min": 1, "first_quartile": 2, "median": 3, "third_quartile": 10, "max": 10, "outliers": [50]}
    assert c["elements"][1]["label"] == "q"


def test_several_axes_and_layers(chart):
    c = chart("fig, (a, b) = plt.subplots(1, 2); a.plot([1]); a.set_title('left'); b.bar(['x'], [1]); fig.suptitle('both');")
    assert (c["type"], c["title"]) == ("superchart", "both") and [(e["type"], e["title"]) for e in c["elements"]] == [("line", "left"), ("bar", "")]
    c = chart("plt.scatter([1], [1]); plt.plot([1, 2]); plt.title('fit');")
    assert (c["type"], c["title"]) == ("superchart", "fit") and [e["type"] for e in c["elements"]] == ["scatter", "line"]


def test_dates(chart):
    c = chart("plt.plot([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)], [1, 2]);")
    assert c["x_scale"] == "datetime" and c["elements"][0]["points"] == [["2024-01-01T00:00:00", 1], ["2024-01-02T00:00:00", 2]]
    c = chart("pd.Series([1, 2], index=pd.date_range('2024-01-01', periods=2)).plot();")
    assert c["x_scale"] == "datetime" and c["elements"][0]["points"] == [["2024-01-01", 1], ["2024-01-02", 2]]


def test_a_long_series_is_sampled_and_says_so(chart):
    (series,) = chart("plt.plot(np.arange(20_000));")["elements"]
    assert series["point_count"] == 20_000 and len(series["points"]) == 5_000
    assert series["points"][0] == [0, 0] and series["points"][-1] == [19_999, 19_999]


def test_no_chart_where_none_can_be_told(chart):
    for code in (
        "plt.text(0.5, 0.5, 'only text');",
        "plt.imshow(np.zeros((4, 4, 3)));",
        "plt.contourf(np.arange(9).reshape(3, 3));",
        "plt.polar([0, 1], [1, 2]);",
        "plt.figure().add_subplot(projection='3d').plot([1, 2], [1, 2], [1, 2]);",
        "plt.fill_between([1, 2], [3, 4]);",
    ):
        assert chart(code) is None, code
