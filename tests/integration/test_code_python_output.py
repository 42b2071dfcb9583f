"""What Python contexts print: streamed, in order, bounded, from wherever it comes."""


def test_output_and_results_are_in_order(python):
    run = python("print('a')\ndisplay(1)\nprint('b')\nimport sys\nprint('c', file=sys.stderr)\nprint('d')\ndisplay(2)\n3")
    assert run.order() == [("stdout", "a\n"), ("result", "1"), ("stdout", "b\n"), ("stderr", "c\n"), ("stdout", "d\n"), ("result", "2"), ("result", "3")]


def test_streams_keep_their_order_all_along(python):
    run = python("import sys\nfor i in range(300):\n    print(f'o{i}')\n    print(f'e{i}', file=sys.stderr)\n    if i % 50 == 0: display(i)")
    flat = [(kind, line) for kind, text in run.order() for line in text.split()]
    expected = []
    for i in range(300):
        expected += [("stdout", f"o{i}"), ("stderr", f"e{i}")] + ([("result", str(i))] if i % 50 == 0 else [])
    assert flat == expected


def test_c_code_and_programs_print_in_order_too(python):
    code = """
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None)
print("python")
os.write(1, b"write\\n")
libc.puts(b"puts")
libc.printf(b"printf without end ")
print("python")
os.system("echo system")
subprocess.run(["sh", "-c", "echo run; echo error >&2"])
print("last")
sys.stdout.buffer.write(b"bytes")
display("shown")
"""
    run = python(code)
    assert run.stdout == "python\nwrite\nputs\nprintf without end python\nsystem\nrun\nlast\nbytes"
    assert run.stderr == "error\n"
    assert run.order().index(("stderr", "error\n")) < run.order().index(("stdout", "last\nbytes")) < run.order().index(("result", "'shown'"))


def test_output_comes_while_the_code_runs(python):
    # The code goes on only when its output has been seen.
    python.api.sh("rm -f /tmp/go")
    with python.stream("import os, time\nprint('.', end='')\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\nprint('done')") as stream:
        assert stream.until(lambda e: e["type"] == "stdout")[-1]["text"] == "."
        python.api.sh("touch /tmp/go")
        rest = stream.until(lambda e: e["type"] == "execution_complete")
    assert "".join(e["text"] for e in rest if e["type"] == "stdout") == "done\n"


def test_print_is_one_event_and_takes_all_its_arguments(python):
    run = python("print('a', 'b', sep='-', end='!\\n'); print(); print(1, 2, flush=True); print('', end='')")
    assert run.stdout == "a-b!\n\n1 2\n"
    python.fails("print('x', sep=3)", "TypeError")
    python.fails("print('x', nonsense=3)", "TypeError")
    assert python("import io; s = io.StringIO(); print('into', file=s); s.getvalue()").result["text"] == "'into\\n'"
    assert python("import contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as s: print('caught')\ns.getvalue()").result["text"] == "'caught\\n'"
    assert len(python("print('one', 'event')").of("stdout")) == 1


def test_a_hundred_megabytes(python):
    before = python("import resource; resource.getrusage(resource.RUSAGE_SELF).ru_maxrss").result["text"]
    lengths = 0
    with python.stream("for i in range(100): print('x' * 1_000_000)") as stream:
        for event in stream:
            if event["type"] == "stdout":
                assert len(event["text"]) <= 1 << 20
                lengths += len(event["text"])
    assert lengths == 100 * 1_000_001
    after = python("resource.getrusage(resource.RUSAGE_SELF).ru_maxrss").result["text"]
    assert int(after) - int(before) < 20_000, "kB: it is written in pieces"


def test_a_string_of_ten_megabytes(python):
    run = python("print('y' * 10_000_000); 'x' * 10_000_000")
    assert run.stdout == "y" * 10_000_000 + "\n"
    assert run.result["text"] == repr("x" * 10_000_000)


def test_unicode_everywhere(python):
    run = python("ß = '日本 😀 \\u202e é'\nprint(ß)\nimport sys; print(ß, file=sys.stderr)\n{ß: ß}")
    text = "日本 😀 \u202e é"
    assert run.stdout == text + "\n" and run.stderr == text + "\n" and run.result["json"] == {text: text}
    assert python.fails("raise ValueError(ß)", "ValueError")["evalue"] == text
    assert python("'é' * 300_000").result["text"] == repr("é" * 300_000), "characters are never cut in two"
    run = python("print('é' * 300_000)")
    assert run.stdout == "é" * 300_000 + "\n"


def test_half_characters(python):
    run = python("print('\\ud83d'); '\\udcff'")
    assert run.stdout == "\\ud83d\n" and run.result["text"] == "'\\udcff'"
    assert python("['\\ud83d\\ude00', '\\ud800']").result["json"] == ["\U0001f600", "\ufffd"]


def test_threads_that_print_on(python):
    python("import threading\ngo = threading.Event()\ndone = threading.Event()\ndef later():\n    go.wait()\n"
           "    print('from the thread')\n    done.set()\nthreading.Thread(target=later).start()")
    run = python("go.set(); done.wait(30)")
    assert run.stdout == "from the thread\n" and run.result["text"] == "True"
    # Printed between two runs: it comes with the next.
    python("def after():\n    import os, time\n    while not os.path.exists('/tmp/between'): time.sleep(0.01)\n"
           "    print('between')\n    open('/tmp/said', 'w')\nthreading.Thread(target=after).start()")
    python.api.sh("rm -f /tmp/said; touch /tmp/between; while ! [ -e /tmp/said ]; do sleep 0.01; done; rm /tmp/between")
    assert python("'next'").order() == [("stdout", "between\n"), ("result", "'next'")]


def test_results_of_threads_between_runs(python):
    python("import os, threading, time\ndef after():\n    while not os.path.exists('/tmp/show'): time.sleep(0.01)\n"
           "    display('late')\n    open('/tmp/shown', 'w')\nthreading.Thread(target=after).start()")
    python.api.sh("rm -f /tmp/shown; touch /tmp/show; while ! [ -e /tmp/shown ]; do sleep 0.01; done; rm /tmp/show")
    assert python("print('next')").order() == [("result", "'late'"), ("stdout", "next\n")]


def test_a_warning_is_shown_in_every_cell(python):
    code = "import warnings; warnings.warn('careful')"
    assert all("careful" in python(code).stderr for _ in range(2))


def test_closed_and_replaced_streams(python):
    python("import os, sys; os.close(1)")
    assert python("print('back')").stdout == "back\n"
    python("os.close(2); os.close(0)")
    assert python("print('e', file=sys.stderr)").stderr == "e\n"
    python("sys.stdout.close(); sys.stderr.close()")
    run = python("print('o'); print('e', file=sys.stderr)")
    assert (run.stdout, run.stderr) == ("o\n", "e\n")
    python("sys.stdout = open('/tmp/instead', 'w')")
    assert python("print('hidden')").stdout == ""
    assert python("sys.stdout = sys.__stdout__; print('shown', open('/tmp/instead').read())").stdout == "shown hidden\n\n"


def test_closing_every_descriptor_below_a_hundred(python):
    assert python("import os\nos.closerange(3, 100)\nprint('still here')").stdout == "still here\n"
    assert python("1").result["text"] == "1"


def test_programs_do_not_inherit_our_descriptors(python):
    # sh opens a directory of its own for ls: 3.
    names = python("!ls /proc/self/fd").stdout.split()
    assert set(names) <= {"0", "1", "2", "3"}, names
