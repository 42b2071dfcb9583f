"""A new box's first JavaScript or TypeScript context is a worker that waited in the box's slot, and behaves as any other."""
import json
import os
import signal
import time

import pytest
from atoll import Instance, alive, box_path, wait_for
from boxapi import Api
from codeapi import Context
from imagelib import built
from warmlib import host_pid, new_box, waiting, warmed, worker_of

MIB = 1 << 20
# One process less than boxes with a waiting worker must have: such a box starts its worker itself.
PLAIN = {"limits": {"pids": 63}}

REPORT = """
JSON.stringify({
  env: process.env, cwd: process.cwd(), argv: process.argv, execArgv: process.execArgv, execPath: process.execPath, title: process.title,
  uid: process.getuid(), gid: process.getgid(), groups: process.getgroups(), umask: process.umask(),
  host: require('os').hostname(), home: require('os').homedir(), tmp: require('os').tmpdir(), cpus: require('os').availableParallelism(),
  servers: require('dns').getServers(), heap: require('v8').getHeapStatistics().heap_size_limit,
  zone: Intl.DateTimeFormat().resolvedOptions().timeZone, locale: Intl.DateTimeFormat().resolvedOptions().locale, noon: new Date(0).getHours(),
  fds: require('fs').readdirSync('/proc/self/fd').filter((n) => n < 6).map((n) => require('fs').readlinkSync('/proc/self/fd/' + n).split(':')[0]),
  parent: process.ppid, session: require('fs').readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ').slice(1, 4).map((n) => n == process.pid),
  interfaces: Object.keys(require('os').networkInterfaces()), globals: Object.keys(globalThis), node: process.version,
})
"""


def report(context):
    return json.loads(context(REPORT).result["text"])


class Unused:
    """Since before a box was made. Its worker is ended after KEEP without use: a machine that is slower than that has no answer."""

    KEEP = 15

    def __init__(self):
        self.since = time.monotonic()

    def is_over(self):
        return time.monotonic() - self.since > self.KEEP


def nodes(api):
    """The box's Node processes, by their numbers in the box."""
    return [int(line.split()[0]) for line in api.sh("ps -eo pid,comm,args").splitlines() if " node --no-force" in line]


@pytest.mark.parametrize("language, code", [("javascript", "20 + 22"), ("typescript", "const n: number = 42; n")])
def test_the_first_context_is_the_worker_that_waited(daemon, box, language, code):
    before = warmed(daemon, language)
    api = Api(daemon, box)
    context = Context(api, language)
    worker = worker_of(api, context)
    assert worker in before and waiting(daemon).get(worker) is None
    assert context(code).result["text"] == "42"
    assert context("globalThis.kept = 1; 1").count == 2
    # It can be interrupted, crosses no other context, and its end is told.
    assert context.run("while (true) {}", timeout_ms=200).error["ename"] == "KeyboardInterrupt"
    second = Context(api, language)
    assert second("typeof kept").result["text"] == "undefined"
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: api.call("/api/contexts", method="GET").json()["contexts"][0]["status"] == "ended", "the end of the context")


def test_it_is_like_one_that_the_box_started(daemon, box):
    before = warmed(daemon)
    settings = {"env": {"TZ": "Asia/Tokyo", "OWN": "é=1"}}
    plain = new_box(daemon, box + "-plain", **settings, **PLAIN)
    api = new_box(daemon, box, **settings, limits={"memory": 1024 * MIB, "cpu": 2})
    api.sh("mkdir -p /workspace/deep")
    plain.sh("mkdir -p /workspace/deep")
    ours, theirs = (Context(a, "javascript", cwd="/workspace/deep", env_vars={"MORE": "2"}) for a in (api, plain))
    assert worker_of(api, ours) in before and worker_of(plain, theirs) not in before
    ours, theirs = report(ours), report(theirs)
    assert ours["host"] == box and ours["env"]["ATOLL_MEMORY"] == str(1024 * MIB) and ours["zone"] == "Asia/Tokyo"
    for r in (ours, theirs):
        for name in ("ATOLL_SANDBOX_ID", "ATOLL_MEMORY", "ATOLL_CPUS"):
            del r["env"][name]
        del r["host"]
    assert ours == theirs
    daemon.destroy(plain.box)


@pytest.mark.parametrize("env, code, said", [
    ({"LC_ALL": "de_DE.UTF-8"}, "Intl.DateTimeFormat().resolvedOptions().locale", "de-DE"),
    ({"NODE_OPTIONS": "--stack-trace-limit=3"}, "Error.stackTraceLimit", "3")])
def test_settings_that_count_at_the_start_of_node_are_kept(daemon, box, env, code, said):
    before = warmed(daemon)
    api = new_box(daemon, box, env=env)
    context = Context(api, "javascript")
    assert worker_of(api, context) not in before
    assert context(code).result["text"] == said


def test_another_user_gets_no_worker_of_roots(daemon, box):
    warmed(daemon)
    api = new_box(daemon, box, user="nobody", env={"HOME": "/tmp"})
    assert Context(api, "javascript")("process.getuid()").result["text"] == "65534"


def test_a_node_that_was_replaced_is_the_one_that_runs(daemon, box):
    warmed(daemon)
    api = Api(daemon, box)
    api.sh("cd /usr/local/bin && mv node node.old && printf '#!/bin/sh\\nexec /usr/local/bin/node.old --stack-trace-limit=7 \"$@\"\\n' >node && chmod +x node")
    assert Context(api, "javascript")("Error.stackTraceLimit").result["text"] == "7"


def test_it_counts_in_the_boxs_memory(daemon, box):
    before = warmed(daemon)
    api = new_box(daemon, box, limits={"memory": 256 * MIB})
    context = Context(api, "javascript")
    assert worker_of(api, context) in before
    error = context.run("const all = []; for (let i = 0; i < 500; i++) all.push(Buffer.alloc(1 << 20, 1)); all.length").error
    assert "memory" in error["evalue"], error


@pytest.mark.parametrize("limits", [{"memory": 255 * MIB}, {"pids": 63}], ids=["memory", "processes"])
def test_a_box_too_small_for_it_has_none(daemon, box, limits):
    before = warmed(daemon)
    api = new_box(daemon, box, limits=limits)
    assert nodes(api) == []
    assert waiting(daemon) == before


def test_one_that_was_killed_in_its_slot_does_no_harm(daemon, box):
    before = warmed(daemon)
    for worker in before:
        os.kill(worker, signal.SIGKILL)
    api = Api(daemon, box)
    assert Context(api, "javascript")("1 + 1").result["text"] == "2"
    wait_for(lambda: " Z" not in api.sh("ps -eo pid,stat"), "no zombie")


def test_one_that_was_killed_in_its_box_does_no_harm(daemon, box):
    warmed(daemon)
    api = Api(daemon, box)
    (pid,) = nodes(api)
    api.sh(f"kill -9 {pid}")
    assert Context(api, "javascript")("1 + 1").result["text"] == "2"


def test_one_that_is_not_used_ends(daemon, box):
    before = warmed(daemon)
    api = Api(daemon, box)
    (pid,) = nodes(api)
    worker = host_pid(api, pid)
    assert worker in before
    wait_for(lambda: not alive(worker), "the end of a worker that nobody uses")
    assert nodes(api) == [] and Context(api, "javascript")("1 + 1").result["text"] == "2"


def test_a_slot_takes_its_worker_along(daemon):
    before = warmed(daemon)
    worker, slot = next(iter(before.items()))
    os.kill(slot, signal.SIGKILL)
    wait_for(lambda: not alive(worker), "the end of the worker")
    assert all(alive(other) for other in before if other != worker)
    assert worker not in warmed(daemon), "another slot is made, with a worker"


def test_snapshots_and_forks(daemon, box):
    before, unused = warmed(daemon), Unused()
    api = Api(daemon, box)
    assert len(nodes(api)) == 1
    api.sh("echo kept >/workspace/file")
    made = daemon.request("POST", box_path(box, "/snapshots"), {"name": "s"})
    assert made.status == 201, made
    fork = new_box(daemon, box + "-fork", **{"from": {"snapshot": made.json()["id"]}})
    code = "require('fs').readFileSync('/workspace/file', 'utf8')"
    contexts = [Context(a, "javascript") for a in (api, fork)]
    assert [c(code).result["text"] for c in contexts] == ["kept\n"] * 2
    assert worker_of(api, contexts[0]) in before or unused.is_over()
    assert worker_of(fork, contexts[1]) not in before
    daemon.destroy(fork.box)
    assert daemon.request("DELETE", box_path(box, f"/snapshots/{made.json()['id']}")).status == 204


def test_sleep_stop_and_start(daemon, box):
    before, unused = warmed(daemon), Unused()
    api = Api(daemon, box)
    assert len(nodes(api)) == 1
    assert daemon.request("POST", box_path(box, "/sleep")).status == 200
    context = Context(api, "javascript")
    assert worker_of(api, context) in before or unused.is_over()
    assert context("1 + 1").result["text"] == "2"
    assert daemon.request("POST", box_path(box, "/stop")).status == 200
    assert Context(api, "javascript")("1 + 1").result["text"] == "2"


def test_daemon_and_warden_are_killed(own_daemon):
    before, unused = warmed(own_daemon), Unused()
    api = Api(own_daemon, "lives-on")
    (pid,) = nodes(api)
    worker = host_pid(api, pid)
    own_daemon.kill_daemon()
    own_daemon.kill_warden()
    own_daemon.await_warden()
    for other in before.keys() - {worker}:
        wait_for(lambda other=other: not alive(other), "the end of a worker in a slot without a warden")
    context = Context(api, "javascript")
    assert worker_of(api, context) == worker or unused.is_over()
    assert context("1 + 1").result["text"] == "2"
    assert warmed(own_daemon).keys().isdisjoint(before)


def never_waits(daemon, api):
    """Two uses of JavaScript, and six times the rest that the warden takes before it starts a worker."""
    for _ in range(2):
        assert Context(api, "javascript")("1 + 1").result["text"] == "2"
        daemon.execute_alone("another", "true")
        time.sleep(0.9)
        assert not waiting(daemon)


def test_none_when_it_is_switched_off():
    with Instance({"ATOLL_ZYGOTE": "off", "ATOLL_WARM_WORKERS": "0"}) as d:
        never_waits(d, Api(d, "off"))


def test_a_setting_that_is_no_number_is_told():
    with Instance({"ATOLL_ZYGOTE": "off", "ATOLL_WARM_WORKERS": "9"}) as d:
        wait_for(lambda: d.logged("ATOLL_WARM_WORKERS must be a number from 0 to 8"), "the warning")
        assert len(warmed(d)) == 2


def test_one_worker_where_one_is_asked_for():
    with Instance({"ATOLL_ZYGOTE": "off", "ATOLL_WARM_WORKERS": "1"}) as d:
        before = warmed(d, at_least=1)
        api = Api(d, "one")
        assert worker_of(api, Context(api, "javascript")) in before
        wait_for(lambda: waiting(d), "the next worker")
        assert len(waiting(d)) == 1


def test_a_users_image_has_none(new_daemon):
    name = f"warm-{os.getpid()}"
    built(new_daemon, "FROM default\nENV WHO=image\n", query=f"tag={name}")
    never_waits(new_daemon, new_box(new_daemon, "custom", image=name))
    new_daemon.destroy("custom")
    new_daemon.request("DELETE", f"/v1/images/{name}")
