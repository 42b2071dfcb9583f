"""Magics, commands and help in Python contexts."""


def test_commands(python):
    run = python("word = 'hello'\n!echo {word} $word ${HOME} {1 + 1}; echo err >&2\nprint('after')")
    assert run.stdout == "hello hello /root 2\nafter\n" and run.stderr == "err\n"
    assert python("out = !printf 'a\\nb\\n'; exit 3\nout, out.s, out.n, _exit_code").result["text"] == "(['a', 'b'], 'a b', 'a\\nb', 3)"
    assert python("!false\n_exit_code").result["text"] == "1"
    assert python("for i in range(2):\n    !echo {i}").stdout == "0\n1\n"
    assert python("!awk 'BEGIN {{print \"x\"}}' < /dev/null").stdout == "x\n"
    assert python("!cat").stdout == "", "no terminal: the end of the file"


def test_only_statements_are_magics(python):
    assert python('text = """\n%no magic\n!no command\n"""\n!echo yes\nlen(text)').result["text"] == "23"
    assert python("7 \\\n% 4").result["text"] == "3"
    assert python("(7\n% 4)").result["text"] == "3"
    assert python("s = '!x'  # it's a comment with a quote\n!echo fine").stdout == "fine\n"
    error = python.fails("!echo first\nx = = 1", "SyntaxError")
    assert error["lineNumber"] == 2


def test_cd_pwd_env(python):
    assert python("%cd /tmp").stdout == "/tmp\n"
    assert python("%pwd").result["text"] == "'/tmp'"
    assert python("%cd -").stdout == "/workspace\n"
    python.fails("%cd /nowhere", "UsageError")
    assert python("%env COLOUR=red\n!echo $COLOUR\n%env COLOUR").result["text"] == "'red'"
    assert python("import os; os.environ['COLOUR']").result["text"] == "'red'"
    assert python("%env").result["json"]["COLOUR"] == "red"


def test_time_and_timeit(python):
    run = python("%time 1 + 2")
    assert run.result["text"] == "3" and "CPU times:" in run.stdout and "Wall time:" in run.stdout
    assert python("x = %time 5\nx").result["text"] == "5"
    run = python("%%time\ny = 1\ny + 1")
    assert run.result["text"] == "2" and "Wall time:" in run.stdout
    assert "per loop (mean ± std. dev. of 2 runs, 10 loops each)" in python("%timeit -n 10 -r 2 sum(range(10))").stdout
    assert python("n = 0\n").results == [] and "per loop" in python("%%timeit -n 5 -r 1\nm = 1\nm + 1").stdout
    assert python.fails("%%time\n\n1/0", "ZeroDivisionError")["lineNumber"] == 3


def test_scripts(python):
    run = python("%%bash\nfor i in 1 2; do echo $i; done\necho err >&2")
    assert run.stdout == "1\n2\n" and run.stderr == "err\n"
    error = python.fails("%%bash\nexit 4", "CalledProcessError")
    assert "4" in error["evalue"]
    assert python("%%sh\necho sh").stdout == "sh\n"
    assert python("%%python\nprint(6 * 7)").stdout == "42\n"


def test_files(python):
    assert python("%%writefile /tmp/mod.py\nvalue = 'é'\n").stdout == "Writing /tmp/mod.py\n"
    assert python("%%writefile -a /tmp/mod.py\nprint(value)").stdout == "Appending to /tmp/mod.py\n"
    assert python("%run /tmp/mod.py\nvalue").order() == [("stdout", "é\n"), ("result", "'é'")]
    assert python("import sys; sys.path.append('/tmp'); import mod; mod.value").result["text"] == "'é'"


def test_capture(python):
    run = python("%%capture got\nimport os\nprint('hidden'); os.system('echo program'); display(1)\n2")
    assert run.order() == []
    assert python("got.stdout, [o['text'] for o in got.outputs]").result["text"] == "('hidden\\nprogram\\n', ['1', '2'])"
    assert python("print('seen again'); got.show()").order() == [("stdout", "seen again\nhidden\nprogram\n"), ("result", "1"), ("result", "2")]


def test_shown_cells(python):
    assert python("%%html\n<b>x</b>").result["html"] == "<b>x</b>"
    assert python("%%markdown\n# x").result["markdown"] == "# x"
    assert python("%%latex\n$x$").result["latex"] == "$x$"
    assert python("%%javascript\nalert(1)").result["javascript"] == "alert(1)"


def test_pip(python):
    assert python("%pip --version").stdout.startswith("pip ")
    assert "numpy" in python("%pip list").stdout
    # A package that is here: nothing to fetch.
    python("%%bash\nmkdir -p /tmp/pkg && cd /tmp/pkg && "
           "printf 'from setuptools import setup\\nsetup(name=\"tiny-thing\", version=\"1\", py_modules=[\"tiny_thing\"])\\n' "
           "> setup.py && echo 'size = 1' > tiny_thing.py")
    run = python("%pip install --no-index --no-build-isolation --root-user-action=ignore /tmp/pkg\nimport tiny_thing\ntiny_thing.size")
    assert run.result["text"] == "1" and "Successfully installed tiny-thing-1" in run.stdout


def test_help(python):
    run = python("def f(a, b=1):\n    'Does it.'\nf?")
    assert "Signature: f(a, b=1)" in run.stdout and "Docstring: Does it." in run.stdout
    assert "'Does it.'" in python("f??").stdout
    assert "not found" in python("nothing_of_that_name?").stdout
    assert "%timeit" in python("%lsmagic").stdout
    assert "f" in python("%who").stdout.split()


def test_unknown_magics(python):
    assert "`%nope` not found" in python.fails("%nope", "UsageError")["evalue"]
    assert python.fails("x = 1\n%nope a b", "UsageError")["lineNumber"] == 2
    assert "`%%nope` not found" in python.fails("%%nope\nx", "UsageError")["evalue"]
    assert "cell magic" in python.fails("%bash ls", "UsageError")["evalue"]
    python.fails("%matplotlib qt", "UsageError")
    python("%matplotlib inline\nget_ipython().run_line_magic('matplotlib', 'inline')")
    assert python("get_ipython().system('echo by call')").stdout == "by call\n"
