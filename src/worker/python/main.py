"""The Python worker: runs code for one context. Protocol: docs/design/008-interpreter.md."""
import ast
import json
import os
import signal
import struct
import sys
import traceback
import types

FD = 3
running = False


def read_exact(n):
    parts = []
    while n:
        piece = os.read(FD, min(n, 1 << 20))
        if not piece:
            os._exit(0)
        parts.append(piece)
        n -= len(piece)
    return b"".join(parts)


def read_frame():
    (length,) = struct.unpack("<I", read_exact(4))
    body = read_exact(length)
    return chr(body[0]), json.loads(body[1:])


def send_frame(kind, payload):
    body = json.dumps(payload).encode("ascii")
    data = memoryview(struct.pack("<IB", len(body) + 1, ord(kind)) + body)
    while data:
        data = data[os.write(FD, data):]


def on_sigint(signum, frame):
    if running:
        raise KeyboardInterrupt


def run_cell(space, code):
    tree = ast.parse(code, "<cell>")
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    exec(compile(tree, "<cell>", "exec"), space)
    if last is not None:
        return eval(compile(last, "<cell>", "eval"), space)
    return None


def init(payload):
    env = payload.get("env")
    if env is not None:
        os.environ.clear()
        os.environ.update(env)
    try:
        os.chdir(payload["cwd"])
    except OSError as error:
        send_frame("X", {"type": "error", "ename": type(error).__name__, "evalue": str(error), "traceback": []})
        os._exit(1)
    send_frame("Y", {"language": payload["language"], "version": sys.version.split()[0]})


def main():
    global running
    os.set_inheritable(FD, False)
    signal.signal(signal.SIGINT, on_sigint)
    kind, payload = read_frame()
    init(payload)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    count = 0
    while True:
        kind, payload = read_frame()
        count += 1
        try:
            running = True
            value = run_cell(module.__dict__, payload["code"])
            running = False
            sys.stdout.flush()
            if value is not None:
                send_frame("E", {"type": "result", "text": repr(value), "metadata": {}})
        except BaseException as error:
            running = False
            sys.stdout.flush()
            send_frame("X", {"type": "error", "ename": type(error).__name__, "evalue": str(error),
                             "traceback": traceback.format_exception(error)})
        sys.stdout.flush()
        send_frame("D", {"execution_count": count})
