"""Python contexts behave like a notebook: values, state, history, await, errors. Through atolld in a real box."""

from codeapi import Context


def test_the_last_expression_is_the_result(python):
    run = python("x = 20\nx + 1\nx * 2 + 2")
    assert run.result["text"] == "42" and run.order() == [("result", "42")]


def test_no_result(python):
    for code in ("", "   \n\n", "# nothing", "x = 1", "None", "41 + 1;", "41 + 1 ; # quiet", "f = lambda: 1", "if True:\n    5", "def g(): return 1"):
        assert python(code).results == [], code


def test_a_semicolon_in_a_string_or_comment_suppresses_nothing(python):
    assert python("'a;'").result["text"] == "'a;'"
    assert python("5 # ;").result["text"] == "5"
    assert python("'é' ; 7").result["text"] == "7"
    assert python("'é';").results == []


def test_executions_are_counted_also_empty_and_failed_ones(python):
    assert [python(c).count for c in ("1", "", "# c")] == [1, 2, 3]
    assert python.run("1/0").count == 4
    assert python.run("(").count == 5
    assert python("1").count == 6


def test_state_is_kept_between_runs_and_apart_between_contexts(python, code_api):
    other = Context(code_api)
    python("import math\nv = [1]\ndef f(n): return v * n")
    python("v.append(2)")
    assert python("f(2), math.pi > 3").result["text"] == "([1, 2, 1, 2], True)"
    other.fails("v", "NameError")
    other.delete()


def test_underscores_and_history(python):
    python("'first'")
    python("2")
    assert python("_, __, _1, Out[2], In[1], _i, _ii, _i1").result["text"] == repr((2, "first", "first", 2, "'first'", "2", "'first'", "'first'"))
    python("_ = 'mine'")
    python("3")
    assert python("_").result["text"] == "'mine'"
    assert python("len(In), sorted(Out)").result["text"] == "(8, [1, 2, 3, 5, 6])"


def test_top_level_await(python):
    python("import asyncio\nq = asyncio.Queue()\nasync def later(v):\n    await asyncio.sleep(0.01)\n    return v")
    assert python("await later(5)").result["text"] == "5"
    assert python("[await later(i) for i in range(3)]").result["text"] == "[0, 1, 2]"
    # One event loop: what one cell starts, the next can wait for.
    python("t = asyncio.get_event_loop().create_task(later('from before'))")
    assert python("await t").result["text"] == "'from before'"
    assert python("asyncio.run(later(6))").result["text"] == "6"
    assert python("await later(7)").result["text"] == "7"


def test_async_for_and_with(python):
    code = """
import contextlib
@contextlib.asynccontextmanager
async def opened():
    print("open")
    yield 3
    print("close")
async def numbers(n):
    for i in range(n):
        yield i
async with opened() as n:
    async for i in numbers(n):
        print(i)
[i async for i in numbers(2)]
"""
    run = python(code)
    assert run.stdout == "open\n0\n1\n2\nclose\n" and run.result["text"] == "[0, 1]"


def test_main_is_main(python):
    assert python("if __name__ == '__main__': print('main')").stdout == "main\n"
    code = "import pickle, sys\nclass P:\n    v = 1\nq = pickle.loads(pickle.dumps(P()))\ntype(q) is P, P.__module__, sys.modules['__main__'].P is P"
    assert python(code).result["text"] == "(True, '__main__', True)"
    python("from dataclasses import dataclass\n@dataclass\nclass D:\n    a: int\n    b: str = 'x'")
    assert python("D(1)").result["text"] == "D(a=1, b='x')"
    python("from __future__ import annotations")
    assert python("def f(a: Nowhere): pass\nf.__annotations__").result["json"] == {"a": "Nowhere"}


def test_an_error_has_name_message_line_and_a_clean_traceback(python):
    error = python.fails("def f(d):\n    return d['no']\n\nf({})", "KeyError")
    assert error["evalue"] == "'no'" and error["lineNumber"] == 2
    assert error["traceback"] == [
        "Traceback (most recent call last):",
        '  File "<cell 1>", line 4, in <module>',
        "    f({})",
        '  File "<cell 1>", line 2, in f',
        "    return d['no']",
        "           ~^^^^^^",
        "KeyError: 'no'",
    ]
    # Called from another cell, the line is that of the code that was sent.
    assert python.fails("\n\nf({})", "KeyError")["lineNumber"] == 3


def test_no_frame_of_ours_is_shown(python):
    codes = (
        "1/0",
        "import asyncio\nasync def f():\n    1/0\nawait f()",
        "class R:\n    def __repr__(self): return 1/0\nR()",
        "class S:\n    def __str__(self): return 1/0\nprint(S())",
        "class H:\n    def __repr__(self): return 1/0\ndisplay(H())",
        "%time 1/0",
    )
    for code in codes:
        text = "\n".join(python.fails(code, "ZeroDivisionError")["traceback"])
        assert "atoll" not in text and "asyncio/" not in text and "<cell " in text, text


def test_chained_exceptions_and_groups(python):
    text = "\n".join(python.fails("try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise ValueError('outer') from e", "ValueError")["traceback"])
    assert text.index("ZeroDivisionError") < text.index("direct cause") < text.index("ValueError: outer")
    text = "\n".join(python.fails("try:\n    1/0\nexcept ZeroDivisionError:\n    {}['k']", "KeyError")["traceback"])
    assert "During handling of the above exception" in text
    assert "TypeError: 2" in "\n".join(python.fails("raise ExceptionGroup('g', [ValueError(1), TypeError(2)])", "ExceptionGroup")["traceback"])


def test_a_syntax_error_has_its_position(python):
    error = python.fails("x = 1\ny = (2,\nz = 3 +\n", "SyntaxError")
    assert error["lineNumber"] in (2, 3) and error["traceback"][-1].startswith("SyntaxError: ")
    assert any(line.strip().startswith("^") for line in error["traceback"]), error
    assert python.fails("if True:\nx = 1", "IndentationError")["lineNumber"] == 2
    assert python.fails("def f():\n  return 1\n    return 2", "IndentationError")
    assert python.fails("x = 1; x = 'a", "SyntaxError")["lineNumber"] == 1
    assert python("1").results, "nothing of a cell with a syntax error has run, and the context is fine"


def test_exceptions_that_cannot_be_shown(python):
    assert python.fails("class E(Exception):\n    def __str__(self): raise OSError\nraise E()", "E")["evalue"] == "<exception str() failed>"
    assert python.fails("raise ValueError('\\ud800 half')", "ValueError")["evalue"] == "\ufffd half"
    error = python.fails("raise ValueError('long' * 1_000_000)", "ValueError")
    assert len(error["evalue"]) < 20_000 and error["evalue"].endswith("more characters]")


def test_deep_and_large_failures(python):
    error = python.fails("def r(n): return r(n + 1)\nr(0)", "RecursionError")
    assert len(error["traceback"]) < 40 and any("more times]" in line for line in error["traceback"])
    python.fails("b = bytearray(10**15)", "MemoryError")
    python.fails("eval('(' * 1000)", "SyntaxError")
    assert python("1 + 1").result["text"] == "2"


def test_exit_is_reported_and_the_context_lives(python):
    python("kept = 1")
    assert python.fails("import sys; sys.exit(3)", "SystemExit")["evalue"] == "3"
    python.fails("exit()", "SystemExit")
    python.fails("quit()", "SystemExit")
    python.fails("raise SystemExit('bye')", "SystemExit")
    assert python("kept").result["text"] == "1"


def test_input_fails_clearly(python):
    error = python.fails("name = input('Name? ')", "StdinNotImplementedError")
    assert "input()" in error["evalue"] and "nobody can answer" in error["evalue"] and error["lineNumber"] == 1
    assert python("issubclass(__import__('builtins').input.__class__, object), __import__('sys').stdin.read()").result["text"] == "(True, '')"
    python.fails("import getpass; getpass.getpass()", "StdinNotImplementedError")


def test_sources_of_cells_are_known(python):
    python("def f(x):\n    # say why\n    return x")
    assert python("import inspect; print(inspect.getsource(f))").stdout == "def f(x):\n    # say why\n    return x\n"
    assert "<cell 3>:1: UserWarning: careful" in python("import warnings; warnings.warn('careful')").stderr
