"""TypeScript contexts: types go, what has a meaning stays, errors are at TypeScript's lines. Through atolld in a real box."""

import pytest
from codeapi import Context


@pytest.fixture(scope="module")
def ts(code_api):
    context = Context(code_api, "typescript")
    yield context
    context.delete()


def text(ts, code):
    return ts(code).result["text"]


def test_types_go(ts):
    assert text(ts, "const x: number = 1; x as unknown as string") == "1"
    assert text(ts, "interface P { n: string; m?: number }\ntype Q = P & { k: keyof P }\nconst p: P = { n: 'a' }; p.n!") == "a"
    assert text(ts, "const id = <T,>(v: T): T => v; id<string>('generic')") == "generic"
    assert text(ts, "const z = { a: 1 } satisfies Record<string, number>; z.a") == "1"
    assert text(ts, "function over(a: string): string\nfunction over(a: number): number\nfunction over(a: any) { return a }\nover(3)") == "3"
    assert text(ts, "abstract class A<T> { abstract get(): T; declare k: string; #p?: number = 2; protected readonly q = this.#p }\n"
                "class B extends A<number> { override get(): number { return this.q! } }\nnew B().get()") == "2"
    assert ts("declare const nothing: string; type Only = 1").results == []


def test_enums_namespaces_and_parameter_properties(ts):
    assert text(ts, "enum Color { Red, Green = 'g', Blue = 1 << 2 }\n[Color.Red, Color[0], Color.Green, Color.Blue].join()") == "0,Red,g,4"
    assert text(ts, "const enum Small { A = 5 }\nSmall.A") == "5"
    assert text(ts, "namespace N { export const v: number = 3; export namespace M { export const w = 4 } }\nN.v + N.M.w") == "7"
    assert text(ts, "class Point { constructor(public readonly x: number, private y = 2) {} sum() { return this.x + this.y } }\nnew Point(1).sum()") == "3"
    # Declared again, it starts anew; and it may become something else.
    assert ts("enum Color { Only }\nObject.keys(Color)").result["json"] == ["0", "Only"]
    assert text(ts, "const Color = 'string now'; Color") == "string now"


def test_state_await_and_modules(ts):
    ts("let kept: number[] = [1]")
    assert text(ts, "kept.push(2); kept.length") == "2"
    assert text(ts, "let kept: string = 'other'; kept") == "other"
    assert text(ts, "const t: string = await Promise.resolve('tla'); t") == "tla"
    assert text(ts, "import type { X } from 'nowhere'\nimport { readFileSync, type Stats, PathLike } from 'node:fs'\n"
                    "import * as path from 'path'\ntypeof readFileSync + path.sep") == "function/"
    assert text(ts, "import os = require('os'); typeof os.cpus") == "function"
    assert text(ts, "export const e: number = 4; export type T = string; e") == "4"
    assert text(ts, "(await import('node:path')).sep") == "/"


def test_errors_are_at_the_lines_of_the_typescript(ts):
    error = ts.fails("interface Gone {\n  a: string\n}\nfunction bad(x: number): never {\n"
                     "  throw new RangeError('at ' + x)\n}\n\nbad(1 as number)", "RangeError")
    assert error["lineNumber"] == 5
    assert [line.split(".ts:")[1] for line in error["traceback"][1:]] == ["5:9)", "8:1"], error
    # With an enum, lines of the JavaScript are elsewhere.
    error = ts.fails("enum E2 {\n  A,\n  B\n}\n\nfunction worse(): void {\n  throw new Error('moved')\n}\nworse()", "Error")
    assert error["lineNumber"] == 7 and ".ts:9:" in error["traceback"][-1], error
    run = ts("enum E3 { A }\ninterface I {\n  a: 1\n}\nconsole.log(new Error('printed'))")
    assert ".ts:5:" in run.stdout, run
    for code, line, mark in (("let y: number = ;", 1, "                ^"), ("\n\nconst q = (1 + ;", 3, "               ^"), ("let s: string = \"abc", 1, None),
                             ("const d = <div/>", 1, None)):
        error = ts.fails(code, "SyntaxError")
        assert error["lineNumber"] == line, error
        assert mark is None or error["traceback"][2] == mark, error
    assert ts.fails("@decorated class D {}", "SyntaxError")["lineNumber"] == 1


def test_javascript_is_typescript_too(ts):
    assert ts("({ a: [1, NaN] })").result["json"] == {"a": [1, None]}
    assert ts("console.log('é'); console.error('e')").order() == [("stdout", "é\n"), ("stderr", "e\n")]
    assert ts("").results == []
    count = ts("1").count
    assert ts("2").count == count + 1


def test_an_interrupt_keeps_the_state(ts):
    ts("let n: number = 0")
    assert "state is kept" in ts.fails("while (true) n++", "KeyboardInterrupt", timeout_ms=300)["evalue"]
    assert text(ts, "n > 0") == "true"
