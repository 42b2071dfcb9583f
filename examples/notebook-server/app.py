"""A notebook server: executes .ipynb files in sandboxes, as nbclient does with a kernel.

    POST /run                  a notebook; answers the executed notebook. The first error ends it
    POST /run?allow-errors     goes on after errors

Each notebook has a sandbox of its own, which is destroyed at the end.
"""

import ast
import uuid

from atoll_sandbox import Sandbox
from web import BadRequest, serve

CELL_SECONDS = 300
MIME = {"text": "text/plain", "html": "text/html", "markdown": "text/markdown", "latex": "text/latex", "svg": "image/svg+xml",
        "png": "image/png", "jpeg": "image/jpeg", "javascript": "application/javascript"}
MARK = "application/x-value-follows"
# A notebook tells a cell's value (execute_result) from what the cell displays (display_data). An event of a run does not, so the value
# announces itself, and says whether it has HTML of its own: Atoll also makes HTML of values that have none, a Series of pandas for one.
PRELUDE = f"""
def __value(value):
    if value is not None:
        own = any(hasattr(type(value), name) for name in ("_repr_html_", "_repr_mimebundle_"))
        display({{"{MARK}": {{"html": own}}}}, raw=True)
    return value
"""


def announced(code):
    """The cell with `__value(…)` around its last expression, if it ends in one. Lines stay where they are."""
    try:
        tree = compile(code, "cell", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        return code  # magics, or an error that the run reports
    if not tree.body or not isinstance(tree.body[-1], ast.Expr):
        return code
    last = tree.body[-1]
    lines = [line.encode() for line in code.split("\n")]
    at, end = last.end_lineno - 1, last.end_col_offset
    if lines[at][end:].lstrip().startswith(b";"):
        return code  # the value is not shown
    lines[at] = lines[at][:end] + b")" + lines[at][end:]
    at, begin = last.lineno - 1, last.col_offset
    lines[at] = lines[at][:begin] + b"__value(" + lines[at][begin:]
    return b"\n".join(lines).decode()


def stream(outputs, name, text):
    """Adds text to the stream that was written last, or begins another."""
    if outputs and outputs[-1].get("name") == name:
        outputs[-1]["text"] += text
    else:
        outputs.append({"output_type": "stream", "name": name, "text": text})


def shown(result, value, count):
    """An output: of the cell's value, which has announced itself with `value`, or of something that was displayed (None)."""
    data = {mime: getattr(result, form) for form, mime in MIME.items() if getattr(result, form) is not None}
    if value is None:
        return {"output_type": "display_data", "metadata": {}, "data": data}
    if not value["html"]:
        data.pop("text/html", None)
    return {"output_type": "execute_result", "metadata": {}, "data": data, "execution_count": count}


def outputs_of(sandbox, context, code, count):
    outputs, value = [], None
    for event in sandbox.run_code_stream(announced(code), context=context, timeout=CELL_SECONDS):
        if event.type in ("stdout", "stderr"):
            stream(outputs, event.type, event.text)
        elif event.result is not None and isinstance(event.result.data, dict) and MARK in event.result.data:
            value = event.result.data[MARK]
        elif event.result is not None:
            outputs.append(shown(event.result, value, count))
            value = None
        elif event.error is not None:
            error = event.error
            outputs.append({"output_type": "error", "ename": error.name, "evalue": error.message, "traceback": error.traceback})
    return outputs


def execute(notebook, allow_errors):
    with Sandbox(f"notebook-{uuid.uuid4()}", destroy_on_exit=True) as sandbox:
        context = sandbox.create_code_context("python")
        sandbox.run_code(PRELUDE, context=context)
        count = 0
        for cell in notebook["cells"]:
            code = "".join(cell["source"])
            if cell["cell_type"] != "code" or not code.strip():
                continue
            count += 1
            cell["execution_count"] = count
            cell["outputs"] = outputs_of(sandbox, context, code, count)
            if not allow_errors and any(output["output_type"] == "error" for output in cell["outputs"]):
                break
    return notebook


def is_notebook(found):
    cells = found.get("cells")
    return found.get("nbformat") == 4 and isinstance(cells, list) and all(
        isinstance(cell, dict) and isinstance(cell.get("cell_type"), str) and isinstance(cell.get("source"), (str, list)) for cell in cells)


def answer(request):
    path, _, query = request.path.partition("?")
    if (request.method, path) != ("POST", "/run"):
        return 404, {"error": "no such route"}
    notebook = request.json()
    if not is_notebook(notebook):
        raise BadRequest("the body is no notebook of format 4")
    return 200, execute(notebook, query == "allow-errors")


if __name__ == "__main__":
    serve(answer)
