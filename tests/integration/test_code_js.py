"""JavaScript contexts: state, modules, await, values, output, errors. Through atolld in a real box."""

import base64
import concurrent.futures

import atoll
import pytest
from codeapi import Context


@pytest.fixture
def js(code_api):
    context = Context(code_api, "javascript")
    yield context
    context.delete()


def texts(context, *cells):
    """The text of each cell's result, None without one."""
    shown = []
    for cell in cells:
        results = context(cell).results
        assert len(results) <= 1, results
        shown.append(results[0]["text"] if results else None)
    return shown


# ---- state


def test_the_last_value_is_the_result(js):
    assert texts(js, "1 + 1", "const x = 20; x * 2 + 2", "x", "x;", "'text'", "null", "-0", "10n ** 20n", "Symbol('s')") == [
        "2", "42", "20", "20", "text", "null", "-0", "100000000000000000000n", "Symbol(s)"]


def test_no_result(js):
    assert texts(js, "", "  \n\n", "// nothing", "const a = 1", "undefined", "function f() {}", "class C {}", "'use strict'; let b = 1",
                 "setTimeout(() => {}, 1)", "if (false) 1", "import os from 'os'", "export { a }") == [None] * 12


def test_declarations_may_be_repeated_in_any_kind(js):
    kinds = ["const v = 1", "let v = 2", "const v = 3", "var v = 4", "class v {}", "function v() {}", "let v = 5; v++", "var v = 6",
             "function* v() {}", "async function v() {}", "const { v, w } = { v: 7, w: 8 }", "let [v] = [9]", "const v = (1, 10)"]
    for cell in kinds:
        js(cell)
    assert texts(js, "v", "w") == ["10", "8"]
    # The other way round: what began as a function or var.
    for cell in ["function g() { return 1 }", "const g = () => 2", "class g { static x = 3 }", "var g = 4", "let g = 5"]:
        js(cell)
    assert texts(js, "g", "for (var i = 0; i < 3; i++);", "let i = 7; i") == ["5", None, "7"]


def test_a_refused_redeclaration_runs_nothing_twice(js):
    js("globalThis.n = 0; function f() {}")
    assert texts(js, "n++; const f = () => n; f()", "n") == ["1", "1"]
    error = js.fails("n++; let dup; let dup", "SyntaxError")
    assert error["evalue"] == "Identifier 'dup' has already been declared"
    assert texts(js, "n") == ["1"]
    js.fails("n++; throw new SyntaxError(\"Identifier 'f' has already been declared\")", "SyntaxError")
    assert texts(js, "n") == ["2"]


def test_functions_are_hoisted_and_state_is_kept_apart(js, code_api):
    assert texts(js, "hello('x'); function hello(s) { return 'hi ' + s }", "hello('y')", "this === globalThis") == ["hi x", "hi y", "true"]
    other = Context(code_api, "javascript")
    other.fails("hello", "ReferenceError")
    other.delete()


def test_words_that_look_like_module_syntax(js):
    assert texts(js, "class K { static import(a) { return a } }; K.import(1)", "({ import(a) { return a }, export: 2, const: 3 }).import(4)",
                 "const re = /const|import \"/; re.source", "`${`const ${1}`} import x from 'y'`", "const h = 8 / 2 / 2; h") == [
        "1", "4", 'const|import "', "const 1 import x from 'y'", "2"]


def test_an_object_literal_is_an_object(js):
    assert js("{a: 1, b: [2]}").result["json"] == {"a": 1, "b": [2]}
    assert texts(js, "{ const inner = 1; inner + 1 }", "typeof inner", "{}") == ["2", "undefined", "{}"]


def test_top_level_await_and_promises(js):
    assert texts(js, "await 5", "const q = await new Promise(r => setTimeout(r, 5, 7)); q * 2", "q", "for await (const x of [1, 2]) x",
                 "(async () => { await null; return 'from main' })()", "Promise.all([1, Promise.resolve(2)])") == [
        "5", "14", "7", "2", "from main", "[ 1, 2 ]"]
    assert js.fails("Promise.reject(new RangeError('no'))", "RangeError")["evalue"] == "no"
    assert js.fails("await null\nawait Promise.reject(new RangeError('no'))", "RangeError")["lineNumber"] == 2


def test_counts(js):
    assert [js(c).count for c in ("1", "", "//")] == [1, 2, 3]
    assert [js.run(c).count for c in ("throw 1", "(", "1")] == [4, 5, 6]


# ---- modules


def test_modules(code_api):
    code_api.sh("mkdir -p /workspace/m/node_modules/pkg && cd /workspace/m && echo 'export default \"d\"; export const named = \"n\"' > e.mjs &&"
                " echo 'exports.c = 1' > c.cjs && echo '{\"j\": 1}' > d.json &&"
                " echo '{\"main\": \"i.js\"}' > node_modules/pkg/package.json && echo 'module.exports = { pkg: true }' > node_modules/pkg/i.js")
    js = Context(code_api, "javascript", cwd="/workspace/m")
    assert texts(js, "require('./c.cjs').c", "require('pkg').pkg", "(await import('./e.mjs')).named", "process.cwd()", "__dirname") == [
        "1", "true", "n", "/workspace/m", "/workspace/m"]
    assert texts(js, "import d, { named as n } from './e.mjs'\nimport * as path from 'node:path'\nimport './c.cjs'\nd + n + path.sep",
                 "import data from './d.json' with { type: 'json' }; data.j", "import { default as dd } from './e.mjs'; dd", "n",
                 "const load = (name) => import(name); (await load('pkg')).default.pkg", "import.meta.dirname",
                 "'import x from \"y\"' + `${'import'}`.length", "export const e = 4; export default function f() {}; e") == [
        "dn/", "1", "d", "n", "true", "/workspace/m", 'import x from "y"6', "4"]
    error = js.fails("1\nimport { nope } from './e.mjs'", "SyntaxError")
    assert error["evalue"] == "The requested module './e.mjs' does not provide an export named 'nope'" and error["lineNumber"] == 2
    assert "Cannot find package 'nope'" in js.fails("import x from 'nope'", "Error")["evalue"]
    js.delete()


# ---- values


def test_values_are_shown_well(js):
    assert texts(js, "new Map([['k', { v: 1 }]])", "new Set([1])", "class P { constructor() { this.x = 1 } }; new P()", "new Uint8Array(2)",
                 "const o = { n: 1 }; o.self = o; o", "() => 1", "/re/g", "new Date(0)", "Object.create(null)", "new Proxy({ p: 1 }, {})",
                 "[undefined, , NaN]") == [
        "Map(1) { 'k' => { v: 1 } }", "Set(1) { 1 }", "P { x: 1 }", "Uint8Array(2) [ 0, 0 ]", "<ref *1> { n: 1, self: [Circular *1] }",
        "[Function (anonymous)]", "/re/g", "1970-01-01T00:00:00.000Z", "[Object: null prototype] {}", "{ p: 1 }",
        "[ undefined, <1 empty item>, NaN ]"]
    assert js("new Error('as value')").result["text"] == "Error: as value\n    at cell-12.js:1:1"


def test_plain_objects_are_json_too(js):
    assert js("[1, { a: NaN, b: -Infinity, c: 2n, d: new Map([['k', new Set([1])]]), e: new Date(0), f: undefined, g: () => 1 }]").result["json"] == [
        1, {"a": None, "b": None, "c": "2", "d": {"k": [1]}, "e": "1970-01-01T00:00:00.000Z"}]
    for code in ("new Map()", "class A {}; new A()", "const c = {}; c.c = c; c", "({ toJSON() { throw 1 } })", "5", "'s'"):
        assert "json" not in js(code).result, code


def test_formats(js):
    png = base64.b64encode(bytes.fromhex("89504e470d0a1a0a0001")).decode()
    result = js("Buffer.from('89504e470d0a1a0a0001', 'hex')").result
    assert result["png"] == png and result["text"].startswith("<Buffer 89 50")
    assert js("new Uint8Array([0xff, 0xd8, 0xff, 0xe0, 0, 0, 0, 0])").result["jpeg"] == "/9j/4AAAAAA="
    run = js("display.html('<b>é</b>'); display.svg('<svg/>'); display.markdown('# m'); display.latex('$x$'); display.json({ a: [1] });"
             "display.javascript('f()'); display.png(Buffer.from('x')); display.jpeg('aGk='); display.text('t');"
             "display.chart({ type: 'line' }); display.data([1]); display({ 'text/html': 'h', 'text/plain': 'p', 'application/x-own': 1 }); display(1, 'two')")
    assert [{k: v for k, v in e.items() if k not in ("type", "metadata", "timestamp")} for e in run.results] == [
        {"html": "<b>é</b>"}, {"svg": "<svg/>"}, {"markdown": "# m"}, {"latex": "$x$"}, {"json": {"a": [1]}}, {"javascript": "f()"}, {"png": "eA=="},
        {"jpeg": "aGk="}, {"text": "t"}, {"chart": {"type": "line"}}, {"data": [1]},
        {"html": "h", "text": "p", "data": {"application/x-own": 1}}, {"text": "1"}, {"text": "two"}]


def test_objects_say_how_they_are_shown(js):
    result = js("({ _repr_html_() { return '<i>' }, _repr_png_() { return Buffer.from('x') } })").result
    assert (result["html"], result["png"]) == ("<i>", "eA==")
    assert js("({ [Symbol.for('Jupyter.display')]() { return { 'text/markdown': '*m*' } } })").result["markdown"] == "*m*"
    assert js("({ outerHTML: '<svg></svg>' })").result["svg"] == "<svg></svg>"
    assert "display failed" in js("({ _repr_html_() { throw new Error('x') } })").result["text"]
    assert js("new Proxy({}, { get() { throw new Error('hostile') } })").result["text"]


def test_long_and_odd_text(js):
    assert len(js("'x'.repeat(10e6)").result["text"]) == 10_000_000
    assert js("'é漢😀\\u0000\\u2028'").result["text"] == "é漢😀\0\u2028"
    assert js("'é'.repeat(100001)").result["text"] == "é" * 100001
    assert js("console.log('é漢😀')").stdout == "é漢😀\n"
    assert js("Array.from({ length: 1e6 }, (_, i) => i)").result["json"][-1] == 999999


# ---- output


def test_console_goes_to_the_right_stream(js):
    run = js("console.log('%s is %d', 'x', 5, { a: 1 }); console.info('i'); console.debug('d'); console.dir({ b: 1 }); process.stdout.write('w')")
    assert (run.stdout, run.stderr) == ("x is 5 { a: 1 }\ni\nd\n{ b: 1 }\nw", "")
    run = js("console.error('e'); console.warn('w'); console.trace('t'); console.assert(false, 'a'); process.stderr.write('x')")
    assert run.stdout == "" and run.stderr == "e\nw\nTrace: t\n    at cell-2.js:1:48\nAssertion failed: a\nx"
    assert js("console.table([{ a: 1 }])").stdout.splitlines()[1] == "│ (index) │ a │"


def test_order_of_output_and_results(js):
    run = js("console.log('a'); console.error('b'); console.log('c'); display(1); console.log('d'); console.error('e'); 'last'")
    assert run.order() == [("stdout", "a\n"), ("stderr", "b\n"), ("stdout", "c\n"), ("result", "1"), ("stdout", "d\n"), ("stderr", "e\n"), ("result", "last")]


def test_children_print_too(js):
    run = js("console.log('before'); require('child_process').execSync('echo child; echo bad >&2', { stdio: 'inherit' }); console.log('after')")
    assert run.stdout == "before\nchild\nafter\n" and run.stderr == "bad\n"


def test_output_streams_while_the_code_runs(js):
    with js.stream("console.log('first'); await new Promise(r => globalThis.go = r)", timeout_ms=60000) as events:
        seen = events.until(lambda e: e["type"] == "stdout")
        assert seen[-1]["text"] == "first\n"


def test_a_hundred_megabytes(js):
    n, rest = 0, []
    with js.stream("for (let i = 0; i < 100; i++) console.log('y'.repeat(999999)); 'end'") as events:
        for event in events:
            if event["type"] == "stdout":
                n += len(event["text"])
            else:
                rest.append((event["type"], event.get("text")))
    assert n == 100_000_000 and rest == [("result", "end"), ("execution_complete", None)]


def test_callbacks_of_a_run_belong_to_it(js):
    assert sorted(js("setTimeout(() => console.log('timer'), 20); setImmediate(() => console.log('immediate'))").stdout.split()) == ["immediate", "timer"]
    assert js("require('fs').readFile('/etc/hostname', () => console.log('file'))").stdout == "file\n"
    assert js("let k = 0; const t = setInterval(() => { console.log(k); if (++k === 3) clearInterval(t) }, 5)").stdout == "0\n1\n2\n"


def test_timers_of_one_run_are_not_heard_in_another(js):
    js("globalThis.n = 0; setInterval(() => { n++; console.log('tick'); display('tick'); if (n > 50) throw new Error('tick') }, 10).unref()")
    run = js("const before = n; while (n < before + 60) await new Promise(r => setTimeout(r, 5)); console.log('mine')")
    assert (run.stdout, run.stderr, run.results, run.error) == ("mine\n", "", [], None)
    assert "tick\n" in js("display.late()").result["text"]


def test_servers_stay(js):
    js("const server = require('http').createServer((q, r) => r.end('served ' + q.url)); await new Promise(r => server.listen(0, '127.0.0.1', r))")
    assert js("await (await fetch(`http://127.0.0.1:${server.address().port}/x`)).text()").result["text"] == "served /x"
    js("server.close(); server.closeAllConnections()")


def test_environment_of_context_and_run(code_api):
    js = Context(code_api, "javascript", env_vars={"A": "1", "B": "2"})
    assert texts(js, "process.env.A + process.env.B") == ["12"]
    assert js.run("process.env.A + process.env.B", env_vars={"A": "x"}).result["text"] == "x2"
    assert texts(js, "process.env.A") == ["1"]
    js.delete()


# ---- errors


def test_errors_name_the_line_of_the_cell(js):
    error = js.fails("function f() {\n  null.x\n}\n\nf()", "TypeError")
    assert error["evalue"] == "Cannot read properties of null (reading 'x')" and error["lineNumber"] == 2
    assert error["traceback"] == ["TypeError: Cannot read properties of null (reading 'x')", "    at f (cell-1.js:2:8)", "    at cell-1.js:5:1"]
    error = js.fails("\n\nconst b = ;", "SyntaxError")
    assert error["lineNumber"] == 3 and error["traceback"] == ["cell-2.js:3", "const b = ;", "          ^", "", "SyntaxError: Unexpected token ';'"]
    error = js.fails("class MyError extends Error { name = 'MyError'; code = 7 }\nthrow new MyError('m', { cause: new Error('why') })", "MyError")
    assert error["lineNumber"] == 2 and any("[cause]: Error: why" in line for line in error["traceback"]), error
    assert not any("atoll" in line or "inspector" in line for line in error["traceback"])
    assert js.fails("nope", "ReferenceError")["lineNumber"] == 1
    assert js.fails("throw { not: 'an error' }", "Uncaught")["evalue"] == "{ not: 'an error' }"
    assert js.fails("throw undefined", "Uncaught")["evalue"] == "undefined"
    assert js.fails("throw new Proxy({}, { get() { throw 1 } })", "Uncaught")
    assert js.fails("const x = {}; x.x = x; throw x", "Uncaught")
    assert js("f.name").result["text"] == "f"


def test_errors_nobody_catches_end_the_run_and_not_the_context(js):
    assert js.fails("setTimeout(() => { throw new TypeError('in a timer') }, 1); await new Promise(() => {})", "TypeError")["lineNumber"] == 1
    assert js.fails("Promise.reject(new Error('lost')); await new Promise(() => {})", "Error")["evalue"] == "lost"
    assert js.fails("process.nextTick(() => { throw 5 }); await new Promise(() => {})", "Uncaught")["evalue"] == "5"
    js("process.removeAllListeners()")
    assert js.fails("setTimeout(() => { throw new TypeError('again') }, 1); await new Promise(() => {})", "TypeError")
    assert texts(js, "'alive'") == ["alive"]


def test_interrupts_keep_the_state(js):
    js("let n = 0; globalThis.kept = 'kept'")
    # On a busy machine the thread that breaks loops needs a while to come up; its context is killed if that takes longer than the grace.
    assert js.run("while (true) n++", timeout_ms=4000).error["ename"] == "KeyboardInterrupt"
    for code in ("while (true) n++", "await null; while (true) n++", "await new Promise(r => setTimeout(r, 20)); for (;;);",
                 "await new Promise(() => {})", "setTimeout(() => { for (;;); }, 5); await new Promise(() => {})", "/(a+)+b/.test('a'.repeat(40))",
                 "for (;;) { try { for (;;); } catch {} }", "require('child_process').execSync('sleep 60')",
                 "process.removeAllListeners('SIGINT'); for (;;);"):
        error = js.run(code, timeout_ms=300).error
        assert error["ename"] == "KeyboardInterrupt", (code, error)
        assert "timed out" in error["evalue"] and "state is kept" in error["evalue"], (code, error)
        assert texts(js, "kept") == ["kept"], code
    assert js("n > 0").result["text"] == "true"


def test_an_interrupt_hits_its_own_run_at_any_moment(js):
    assert js.run("for (;;);", timeout_ms=4000).error["ename"] == "KeyboardInterrupt"  # as above
    for i in range(24):
        run = js.run(("for (;;);", "await new Promise(() => {})", "1")[i % 3], timeout_ms=1 + i % 5)
        assert run.count == 2 * i + 2, run
        assert run.error["ename"] == "KeyboardInterrupt" if i % 3 < 2 else True, run
        assert js("1 + 1").result["text"] == "2"


def test_exit_ends_the_context_and_says_so(code_api):
    js = Context(code_api, "javascript")
    run = js.run("console.log('bye'); process.exit(3)")
    assert run.stdout == "bye\n" and "exited with code 3" in run.error["evalue"] and run.of("execution_complete") == []
    refused = code_api.call("/api/execute/code", {"context_id": js.id, "code": "1"})
    assert refused.status == 500 and "exited with code 3" in refused.json()["error"]
    js.delete()


def test_a_killed_worker_is_an_error(code_api):
    js = Context(code_api, "javascript")
    run = js.run("process.kill(process.pid, 'SIGKILL')")
    assert "SIGKILL" in run.error["evalue"] and run.of("execution_complete") == []
    js.delete()


def test_memory_runs_out(code_api):
    js = Context(code_api, "javascript")
    run = js.run("const a = []; for (;;) a.push(new Array(1e6).fill(0).map((_, i) => ({ i })))")
    assert run.error and run.of("execution_complete") == [], run
    js.delete()


# ---- code that breaks things


def test_tampering_does_not_reach_the_protocol(js):
    js("""delete globalThis.console; globalThis.JSON = null; globalThis.Buffer = null; globalThis.process.stdout = null
        for (const name of ['push', 'map', 'slice', 'join', 'includes', 'filter', 'concat']) Array.prototype[name] = () => { throw new Error('no ' + name) }
        String.prototype.replace = String.prototype.split = String.prototype.slice = () => 'lies'
        Object.prototype.toJSON = String.prototype.toJSON = Array.prototype.toJSON = () => 'lies'
        Promise.prototype.then = () => 'lies'; Atomics.store = Atomics.load = () => 1
        require('fs').writeSync = () => 0; require('net').Socket.prototype.read = () => 0; require('events').prototype.emit = () => false""")
    assert js("6 * 7").result["text"] == "42"
    run = js.run("throw new Error('still told')")
    assert run.error and run.count == 3, run
    assert js("'and again'").result["text"] == "and again"


def test_the_socket_is_not_the_users_to_close(js):
    for code in ("require('fs').closeSync(3)", "await require('fs/promises').readFile('/nope')", "import fs from 'fs'; fs.closeSync(5)"):
        assert js.fails(code, "Error")["evalue"]
    assert texts(js, "'open'") == ["open"]


def test_children_do_not_inherit_the_socket(js):
    listed = js("require('child_process').execSync('ls -l /proc/self/fd').toString()").result["text"]
    links = [line.split(" -> ") for line in listed.splitlines() if " -> " in line]
    assert "socket" not in [target.split(":")[0] for name, target in links if name.endswith(" 3")], listed


# ---- one that was started ahead


def waiting(code_api):
    """Pids of Node processes that have not become a context: their directory is the agent's own still."""
    return code_api.sh("for p in /proc/[0-9]*; do case $(readlink $p/exe) in */node) echo ${p#/proc/} $(readlink $p/cwd);; esac; done").splitlines()


def test_a_worker_is_ready_for_the_next_context(code_api):
    code_api.sh("mkdir -p /workspace/ahead")
    first = Context(code_api, "javascript", cwd="/workspace/ahead")
    atoll.wait_for(lambda: [line for line in waiting(code_api) if not line.endswith("/ahead")], "a process that was started ahead")
    ready = {line.split()[0] for line in waiting(code_api)}
    second = Context(code_api, "javascript", cwd="/workspace/ahead", env_vars={"OWN": "é=1", "HOME": "/tmp"})
    assert second("String(process.pid)").result["text"] in ready
    assert texts(second, "process.env.OWN + process.env.HOME", "process.cwd()", "process.env.PWD", "Object.keys(process.env).length > 3") == [
        "é=1/tmp", "/workspace/ahead", "/workspace/ahead", "true"]
    assert second("1").count == 6
    # What only counts when a process starts is not too late.
    third = Context(code_api, "javascript", env_vars={"NODE_OPTIONS": "--stack-trace-limit=3"})
    assert texts(third, "Error.stackTraceLimit") == ["3"]
    for context in (first, second, third):
        context.delete()


def test_many_at_once(code_api):
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        contexts = list(pool.map(lambda _: Context(code_api, "javascript"), range(6)))
        results = list(pool.map(lambda c: c("const mine = Math.random(); await new Promise(r => setTimeout(r, 20)); mine").result["text"], contexts))
        assert len(set(results)) == 6
        assert list(pool.map(lambda c: c("String(mine)").result["text"], contexts)) == results
        list(pool.map(lambda c: c.delete(), contexts))


# ---- bounds


def test_large_errors_and_results_are_bounded(js):
    error = js.fails("throw new Error('é'.repeat(1e6))", "Error")
    assert error["evalue"].startswith("éé") and error["evalue"].endswith("more characters") and len(error["evalue"]) < 40_000
    error = js.fails("const e = new Error('m'); e.stack = ('at x\\n' + 'ü'.repeat(5000) + '\\n').repeat(1000); throw e", "Error")
    assert "more lines" in error["traceback"][-1]
    shown = js("'é'.repeat(8e6)").result["text"]
    assert shown.startswith("éé") and shown.endswith("more characters")
    js.fails("display.png(Buffer.alloc(50e6))", "RangeError")
    run = js("Array.from({ length: 4e6 }, () => 'long')")
    assert "json" not in run.result and run.result["text"].startswith("[")
    assert texts(js, "'alive'") == ["alive"]
