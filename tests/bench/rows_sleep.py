"""Rows of `make bench`: how long a sleeping box takes to answer, and what it costs to keep many of them."""

import contextlib
import statistics
import time

import atoll
import boxapi
import swap
from codeapi import Context

ROWS = ["wake", "sleepers"]
PANDAS = "import pandas as pd; frame = pd.DataFrame({'a': range(100000)})"


def post(d, box, rest, body=None):
    r = d.request("POST", f"/v1/sandboxes/{box}{rest}", body, timeout=120)
    assert r.status == 200, r
    return r.json()


def sleep(d, box):
    """On a machine that is busy elsewhere a freeze may take longer than it may."""
    while d.request("POST", f"/v1/sandboxes/{box}/sleep", timeout=120).status != 200:
        time.sleep(0.05)


def timed(d, box):
    begin = time.perf_counter()
    post(d, box, "/api/execute", {"command": "/bin/true"})
    return (time.perf_counter() - begin) * 1e6


def wake(bench, d):
    n = 50 if bench.quick else 300
    post(d, "w", "/api/execute", {"command": "/bin/true"})
    awake, frozen = [], []
    for _ in range(n):
        awake.append(timed(d, "w"))
        sleep(d, "w")
        frozen.append(timed(d, "w"))
    bench.note("awake -> exec answered", "atoll", awake)
    bench.note("frozen -> exec answered", "atoll", frozen, awake, "<= 1 ms more than awake")
    d.destroy("w")
    with swap.swap() as missing:
        if missing:
            print(f"skipped: paged out ({missing})")
            return
        with brisk() as own:
            paged(bench, own, 10 if bench.quick else 40)


@contextlib.contextmanager
def brisk():
    """An Atoll whose sleeping boxes go to swap after a second, not after a minute."""
    with atoll.Instance({"ATOLL_PAGE_OUT_AFTER": "1s"}) as own:
        own.await_zygote()
        yield own


def used(d, box):
    return d.inspect(box)["usage"]


def page_out(d, box):
    """Sleeps, and waits until its memory is in swap and stays there."""
    sleep(d, box)
    seen = [-1]
    while used(d, box)["swap"] == 0 or used(d, box)["memory"] != seen[-1]:
        seen.append(used(d, box)["memory"])
        time.sleep(0.3)


def paged(bench, d, n):
    context = Context(boxapi.Api(d, "p"), "python")
    context.run(PANDAS)
    awake, out = [], []
    for _ in range(n):
        begin = time.perf_counter()
        context.run("frame.a.sum()")
        awake.append((time.perf_counter() - begin) * 1e6)
        page_out(d, "p")
        begin = time.perf_counter()
        context.run("frame.a.sum()")
        out.append((time.perf_counter() - begin) * 1e6)
    bench.note("pandas loaded, awake -> sum of a column", "atoll", awake)
    bench.note("paged out with pandas loaded -> sum of a column", "atoll", out, awake, "<= 40 ms")
    d.destroy("p")


def sleepers(bench, d):
    del d
    with brisk() as own:
        many(bench, own, 40 if bench.quick else 2000)


def many(bench, d, boxes):
    names = [f"s{i}" for i in range(boxes)]
    for name in names:
        Context(boxapi.Api(d, name), "python").run("x = list(range(1000))")
    awake = [used(d, n)["memory"] for n in names]
    bench.value(f"memory of a box with a Python context, over {boxes}, awake", "atoll", statistics.mean(awake) / 1e6, "MB")
    with swap.swap(max(512, boxes * 5) << 20) as missing:
        if missing:
            print(f"skipped: sleepers in swap ({missing})")
            return
        for name in names:
            sleep(d, name)
        for name in names:
            while used(d, name)["swap"] == 0:
                time.sleep(0.1)
        asleep = [used(d, n) for n in names]
        bench.value("  asleep and paged out", "atoll", statistics.mean(u["memory"] for u in asleep) / 1e6, "MB")
        bench.value("  in swap", "atoll", statistics.mean(u["swap"] for u in asleep) / 1e6, "MB")
        for name in names:
            d.destroy(name)
