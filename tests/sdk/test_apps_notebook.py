"""examples/notebook-server: what it makes of notebooks is what Jupyter (nbclient with ipykernel) makes of them on this machine."""

import importlib.util

import apps
import pytest

ZYGOTE = True
NEEDED = ["nbclient", "nbformat", "ipykernel", "pandas", "matplotlib"]
MISSING = [name for name in NEEDED if not importlib.util.find_spec(name)]
pytestmark = pytest.mark.skipif(bool(MISSING) or not apps.installed(), reason=f"tools/deps test installs what is missing: {', '.join(MISSING)}")

NOTEBOOKS = {
    "values": ["1 + 1", "x = 5", "x", "None", "'text'", "[1, 2.5, None]", "{'a': (1, 2), 'b': {3}}", "x;", "print(x)\nx + 1", "list(range(100))",
               "_ + [1]", "def f():\n    return 7", "f()", "f", "(1,\n 2,\n 3)", "", "# nothing", "b'\\x00'", "1 if x else 2", "f\"{x!r}\""],
    "streams": ["import sys\nprint('a')\nprint('b', file=sys.stderr)\nprint('c')",
                "for i in range(3):\n    print(i, end=' ')", "print('grüße', '漢字', '🙂')",
                "sys.stdout.write('x\\n')", "print('a' * 5000)"],
    "display": ["display(1, 'two')", "display([1])\n3", "from IPython.display import HTML, Markdown\nHTML('<b>x</b>')",
                "display(Markdown('**y**'))\nprint('z')",
                "class R:\n    def _repr_html_(self):\n        return '<i>r</i>'\n    def __repr__(self):\n        return 'R!'\nR()", "display(R())"],
    "pandas": ["import pandas as pd\nt = pd.DataFrame({'city': ['Oslo', 'Lima'], 'people': [717710, 10092000]})", "t", "t.people",
               "display(t.head(1))\nt.shape",
               "t.describe()", "t.groupby('city').people.sum()"],
    "figures": ["import matplotlib.pyplot as plt\nimport numpy as np", "plt.plot([1, 2, 3]);",
                "fig, ax = plt.subplots()\nax.bar(['a', 'b'], [3, 4])\nplt.show()\nprint('after')",
                "ax.set_title('t')\nfig"],
    "async": ["import asyncio\nasync def g():\n    await asyncio.sleep(0)\n    return 8", "await g()", "await asyncio.gather(g(), g())"],
    "errors": ["1 / 0", "print('goes on')", "undefined", "raise ValueError('why')"],
}


def notebook(cells):
    import nbformat
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A title"), *map(nbformat.v4.new_code_cell, cells)])
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


def joined(outputs):
    """Outputs with what was printed between two others joined by stream, stdout first: the order of stdout and stderr in ipykernel varies."""
    done, printed = [], {}
    for output in [*outputs, {"output_type": "end"}]:
        if output["output_type"] == "stream":
            printed[output["name"]] = printed.get(output["name"], "") + output["text"]
            continue
        done += [{"output_type": "stream", "name": name, "text": printed[name]} for name in sorted(printed, reverse=True)]
        printed = {}
        done.append({**output})
    return done[:-1]


def compared(cells):
    """Code cells as they are compared: all outputs, but for the traceback's text, which IPython colours and frames in its own way, and for
    addresses in memory."""
    seen = []
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        outputs = joined(cell["outputs"])
        for output in outputs:
            output.pop("traceback", None)
            output["metadata"] = {}
            if "data" in output:
                data = {mime: value.strip() if isinstance(value, str) else value for mime, value in output["data"].items()}
                data["text/plain"] = data["text/plain"].split(" at 0x")[0]
                output["data"] = data
        seen.append((cell["source"], cell.get("execution_count"), outputs))
    return seen


@pytest.fixture(scope="module")
def app(daemon, tmp_path_factory):
    with apps.App(daemon, tmp_path_factory.mktemp("app") / "log", "notebook-server", "python") as found:
        yield found


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_results_are_those_of_jupyter(app, daemon, name):
    import nbclient
    import nbformat
    made = notebook(NOTEBOOKS[name])
    here = app.post("/run?allow-errors", made)
    nbformat.validate(nbformat.from_dict(here))
    nbclient.NotebookClient(made, timeout=200, allow_errors=True).execute()
    assert compared(here["cells"]) == compared(made.cells)
    assert daemon.boxes() == []


def test_the_first_error_ends_it(app):
    done = app.post("/run", notebook(["1", "1 / 0", "2"]))
    assert [len(cell.get("outputs", [])) for cell in done["cells"] if cell["cell_type"] == "code"] == [1, 1, 0]


@pytest.mark.parametrize("bad", [{}, {"nbformat": 3, "cells": []}, {"nbformat": 4, "cells": [{"cell_type": "code"}]}, {"nbformat": 4, "cells": 7}])
def test_bad_input(app, bad):
    app.post("/run", bad, status=400)


def test_the_notebook_of_the_readme(app):
    import nbformat
    sent = (apps.EXAMPLES / "notebook-server/primes.ipynb").read_bytes()
    nbformat.validate(nbformat.reads(sent.decode(), as_version=4))
    done = app.post("/run", sent)
    nbformat.validate(nbformat.from_dict(done))
    printed, table, chart = (cell["outputs"] for cell in done["cells"] if cell["cell_type"] == "code")
    assert printed == [{"output_type": "stream", "name": "stdout", "text": "[2, 3, 5, 7, 11, 13, 17, 19, 23, 29]\n"}]
    assert "<td>78498</td>" in table[0]["data"]["text/html"] and chart[0]["data"]["image/png"]
