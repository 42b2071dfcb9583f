from __future__ import annotations

import json
from typing import Any, Callable

import pytest

from atoll_sandbox import ContextNotFoundError, Execution, ExecutionError, Logs, Result, SandboxSecurityError

from .conftest import until


def test_contexts_keep_their_state(sandbox: Any) -> None:
    context = sandbox.create_code_context(language="python")
    sandbox.run_code("import sys; kept = 41", context=context)
    run = sandbox.run_code("print('a'); print('b', file=sys.stderr); kept + 1", context=context.id)
    assert (run.results[0].text, run.text, run.success, sorted(run.output.split())) == ("42", "42", True, ["a", "b"])
    assert (run.logs.stdout, run.logs.stderr) == (["a\n"], ["b\n"])
    assert run.results[0].formats() == ["text"]
    assert sandbox.run_code("1 + 1", context=context).output == "2"
    assert context.id in [one.id for one in sandbox.list_code_contexts()]
    sandbox.delete_code_context(context)
    with pytest.raises(ContextNotFoundError) as caught:
        sandbox.run_code("1", context=context)
    assert caught.value.context_id == context.id


def test_a_context_limits_its_runs(sandbox: Any) -> None:
    context = sandbox.create_code_context(timeout=0.5)
    assert sandbox.run_code("while True: pass", context=context).error.name == "KeyboardInterrupt"


def test_an_error_is_a_result(sandbox: Any) -> None:
    run = sandbox.run_code("a = 1\na.nope")
    assert not run.success
    assert (run.error.name, run.error.line_number) == ("AttributeError", 2)
    assert str(run.error).startswith("AttributeError: 'int' object has no attribute")
    assert run.error.traceback
    assert json.loads(run.to_json())["error"]["name"] == "AttributeError"


def test_callbacks_come_in_order(sandbox: Any) -> None:
    seen: list[str] = []
    sandbox.run_code(
        "import sys\nprint('a')\nprint('b', file=sys.stderr)\ndisplay(1)\n1 / 0",
        on_stdout=lambda output: seen.append(f"out {output.text}"),
        on_stderr=lambda output: seen.append(f"err {output.text}"),
        on_result=lambda result: seen.append(f"result {result.text}"),
        on_error=lambda error: seen.append(f"error {error.name}"),
    )
    assert seen == ["out a\n", "err b\n", "result 1", "error ZeroDivisionError"]


def test_output_comes_while_the_code_runs(sandbox: Any) -> None:
    code = ("import os, time\nprint('first', flush=True)\n"
            "while not os.path.exists('/tmp/go'): time.sleep(0.02)\nprint('second')")
    text = ""
    for event in sandbox.run_code_stream(code):
        if event.type == "stdout":
            text += event.text
            if text == "first\n":
                sandbox.write_file("/tmp/go", "")
    assert text == "first\nsecond\n"


def test_limits_and_leaving_interrupt(sandbox: Any) -> None:
    context = sandbox.create_code_context()
    sandbox.run_code("kept = 1", context=context)
    late = sandbox.run_code("while True: pass", context=context, timeout=0.3)
    assert "time" in str(late.error).lower()
    with sandbox.run_code_stream("import time\nprint('on', flush=True)\ntime.sleep(600)", context=context) as events:
        assert next(events).text == "on\n"
    assert sandbox.run_code("kept", context=context).text == "1"


def test_languages(sandbox: Any) -> None:
    assert sandbox.run_code("const a: number = 6; a * 7", language="typescript").text == "42"
    assert sandbox.run_code("var b = 1; b", language="javascript").text == "1"
    with pytest.raises(SandboxSecurityError) as caught:
        sandbox.create_code_context("cobol")
    assert caught.value.code == "INVALID_LANGUAGE"


def test_variables(make: Callable[..., Any], box_id: str) -> None:
    sandbox = make(box_id)
    sandbox.set_env_vars({"A": "sandbox", "B": "sandbox", "C": "sandbox"})
    context = sandbox.create_code_context(env={"B": "context", "C": "context"})
    code = "import os; print(*[os.environ.get(n) for n in 'ABC'])"
    assert sandbox.run_code(code, context=context, env={"C": "run"}).output == "sandbox context run\n"
    assert sandbox.run_code(code, context=context).output == "sandbox context context\n"
    assert sandbox.run_code(code, env={"C": "run"}).output == "sandbox sandbox run\n"


def test_an_interpreter_that_is_killed_is_told(sandbox: Any) -> None:
    run = sandbox.run_code("import os; os.kill(os.getpid(), 9)")
    assert not run.success
    until(lambda: sandbox.run_code("1 + 1").text == "2", "a new default context to work")


def test_charts_and_tables_in_a_notebook(sandbox: Any) -> None:
    table = sandbox.run_code("import pandas; t = pandas.DataFrame({'n': [1, 2, 3]}); t")
    bundle = table._repr_mimebundle_()
    assert "<table" in bundle["text/html"] and "n" in bundle["text/plain"]
    chart = sandbox.run_code("t.plot()")
    picture = next(result for result in chart.results if result.png)
    assert picture.image.startswith(b"\x89PNG") and picture.chart["type"] == "line"
    assert set(picture._repr_mimebundle_(include=["image/png"])) == {"image/png"}
    assert "image/png" not in picture._repr_mimebundle_(exclude=["image/png"])
    assert sandbox.run_code("1 / 0")._repr_mimebundle_()["text/plain"].rstrip().endswith("ZeroDivisionError: division by zero")


def test_ipython_shows_every_form() -> None:
    formatters = pytest.importorskip("IPython.core.formatters", reason="IPython is missing: tools/deps test installs it")
    shown, _ = formatters.DisplayFormatter().format(Result(text="t", html="<table>", png="iVBORw0KGgo="))
    assert shown == {"text/plain": "t", "text/html": "<table>", "image/png": "iVBORw0KGgo="}
    shown, _ = formatters.DisplayFormatter().format(Execution("x", [Result(text="t", html="<table>")]))
    assert shown == {"text/plain": "t", "text/html": "<table>"}


def test_bundles() -> None:
    result = Result(html="<b>1</b>", json={"a": 1}, data=[1])
    assert result._repr_mimebundle_() == {"text/html": "<b>1</b>", "application/json": {"a": 1}, "text/plain": str(result)}
    assert str(result) == "<html, json, data>"
    run = Execution("x", [Result(text="42")], Logs(["printed\n"], []))
    assert run._repr_mimebundle_() == {"text/plain": "printed\n42"}
    assert str(ExecutionError("SystemExit", "")) == "SystemExit"
