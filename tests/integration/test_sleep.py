"""Sleep, wake and stop: on request and by themselves, what keeps a box awake, what wakes it, memory in swap."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import atoll as lib
import boxapi
import boxapp
import codeapi
import fixtures
import pytest
import swap
import wsclient
from atoll import box_path, wait_for
from boxapi import check_error


@pytest.fixture(scope="module")
def brisk():
    """An Atoll whose boxes sleep after two seconds when nobody chose, and go to swap at once."""
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    instance = lib.Instance({"ATOLL_SLEEP_AFTER": "2s", "ATOLL_PAGE_OUT_AFTER": "1s", "ATOLL_ZYGOTE": "off"})
    try:
        yield instance.start()
    finally:
        fixtures.finish(instance)


def state(daemon, box):
    return daemon.inspect(box)["state"]


def asleep(daemon, box):
    wait_for(lambda: state(daemon, box) == "asleep", "it sleeps")


def act(daemon, box, verb, timeout=lib.DEADLINE):
    return daemon.request("POST", box_path(box, "/" + verb), timeout=timeout)


def put_to_sleep(daemon, box):
    """On a machine that is busy elsewhere a freeze may take longer than it may."""
    return wait_for(lambda: (r := act(daemon, box, "sleep")).status == 200 and r.json(), "it is frozen")


def start(daemon, box, command, **fields):
    r = daemon.request("POST", box_path(box, "/api/process/start"), {"command": command, **fields})
    assert r.status == 200, r
    return r.json()["processId"]


# ---- on request


def test_sleep_and_wake_keep_everything(daemon, box):
    daemon.execute(box, "cd /tmp; A=kept; f() { echo function; }", sessionId="s")
    pid = start(daemon, box, "while sleep 0.05; do echo tick; done", processId="ticker")
    assert put_to_sleep(daemon, box)["state"] == "asleep"
    assert act(daemon, box, "sleep").json()["state"] == "asleep", "twice is as good as once"
    r = act(daemon, box, "wake")
    assert (r.status, r.json()["state"]) == (200, "running")
    assert act(daemon, box, "wake").json()["state"] == "running"
    assert daemon.execute(box, "echo $PWD $A; f", sessionId="s")["stdout"] == "/tmp kept\nfunction\n"
    process = daemon.request("GET", box_path(box, f"/api/process/{pid}")).json()["process"]
    assert process["status"] == "running"


def test_a_request_wakes_a_box_that_was_put_to_sleep(daemon, box):
    daemon.execute(box, "true")
    put_to_sleep(daemon, box)
    assert daemon.execute(box, "echo here")["stdout"] == "here\n"
    assert state(daemon, box) == "running"


def test_stop_ends_processes_and_keeps_files(daemon, box):
    daemon.execute(box, "echo file >/root/file; trap 'echo asked >/root/asked; exit' TERM; sleep 0.1", sessionId="s")
    start(daemon, box, "trap 'echo asked >>/root/asked; exit' TERM; echo up; while :; do sleep 0.05; done", processId="p")
    wait_for(lambda: "up" in daemon.request("GET", box_path(box, "/api/process/p/logs")).json()["stdout"], "it runs")
    r = act(daemon, box, "stop")
    assert (r.status, r.json()["state"], r.json()["reason"]) == (200, "stopped", "stopped by a request")
    assert act(daemon, box, "stop").status == 200
    assert daemon.execute(box, "cat /root/file /root/asked")["stdout"].split()[:2] == ["file", "asked"]
    assert daemon.request("GET", box_path(box, "/api/process/list")).json()["processes"] == []


def test_a_sleeping_box_is_asked_to_end_as_well(daemon, box):
    start(daemon, box, "trap 'echo asked >/root/asked; exit' TERM; echo up; while :; do sleep 0.05; done", processId="p")
    wait_for(lambda: "up" in daemon.request("GET", box_path(box, "/api/process/p/logs")).json()["stdout"], "it runs")
    put_to_sleep(daemon, box)
    assert act(daemon, box, "stop").json()["state"] == "stopped"
    assert daemon.execute(box, "cat /root/asked")["stdout"] == "asked\n"


def test_a_box_that_does_not_end_is_killed(daemon, box):
    start(daemon, box, "trap '' TERM; while :; do sleep 1000; done")
    r = act(daemon, box, "stop", timeout=60)
    assert (r.status, r.json()["state"]) == (200, "stopped")


def test_wake_starts_a_stopped_box(daemon, box):
    daemon.execute(box, "echo x >/root/x")
    act(daemon, box, "stop")
    assert act(daemon, box, "wake").json()["state"] == "running"


def test_unknown_and_stopped_sandboxes_are_told_apart(daemon, box):
    for verb in ("sleep", "wake", "stop"):
        check_error(act(daemon, "nobody", verb), "SANDBOX_NOT_FOUND", 404)
        assert daemon.request("GET", box_path("nobody", "/" + verb)).status == 405
    assert daemon.inspect("nobody") is None
    daemon.execute(box, "true")
    act(daemon, box, "stop")
    check_error(act(daemon, box, "sleep"), "INVALID_STATE", 409)
    assert state(daemon, box) == "stopped"


def test_many_of_all_verbs_at_once(daemon, box):
    daemon.execute(box, "echo 1 >/root/f")
    verbs = ["sleep", "wake", "stop", "exec"] * 10

    def do(verb):
        if verb == "exec":
            return daemon.request("POST", box_path(box, "/api/execute"), {"command": "cat /root/f"}, timeout=60).status
        return act(daemon, box, verb, timeout=60).status

    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(do, verbs))
    # A command whose box is stopped under it is lost, or told that its shell has ended; a sleep may find the box stopped.
    assert set(statuses) <= {200, 409, 410, 500, 503}, statuses
    assert daemon.execute(box, "cat /root/f")["stdout"] == "1\n"


def test_a_command_inside_goes_on_after_sleep(daemon, box):
    daemon.execute(box, "mkfifo /tmp/go")
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(daemon.request, "POST", box_path(box, "/api/execute"),
                           {"command": "touch /tmp/begun; cat /tmp/go", "sessionId": "w"})
        wait_for(lambda: daemon.execute(box, "test -e /tmp/begun")["exitCode"] == 0, "it runs")
        assert put_to_sleep(daemon, box)["state"] == "asleep"
        daemon.execute(box, "echo done >/tmp/go")
        assert work.result().json()["stdout"] == "done\n"


def test_a_box_that_cannot_be_frozen_runs_on(daemon, box):
    """Pages that the kernel makes are no moment to stop a process: it is busy for much longer than the limit."""
    daemon.request("PUT", box_path(box), {"limits": {"memory": 3 << 30, "cpu": 2}})
    code = ("import mmap,sys\\nprint('up',flush=True)\\n"
            "while True:\\n m=mmap.mmap(-1,5<<29,flags=mmap.MAP_PRIVATE|mmap.MAP_ANONYMOUS|mmap.MAP_POPULATE)\\n m.close()")
    start(daemon, box, f"exec python3 -c \"exec('''{code}''')\"", processId="p")
    wait_for(lambda: "up" in daemon.request("GET", box_path(box, "/api/process/p/logs")).json()["stdout"], "it runs")

    def refused():
        r = act(daemon, box, "sleep")
        if r.status == 200:
            act(daemon, box, "wake")
            return None
        return r

    r = wait_for(refused, "a freeze that cannot complete")
    check_error(r, "INVALID_STATE", 409)
    assert "200 ms" in r.json()["message"]
    assert state(daemon, box) == "running"
    assert daemon.execute(box, "echo on")["stdout"] == "on\n"
    daemon.request("DELETE", box_path(box, "/api/process/p?signal=SIGKILL"))


# ---- by itself


def test_the_default_is_ten_minutes_and_can_be_chosen_back(daemon, box):
    shown = daemon.request("PUT", box_path(box)).json()
    assert (shown["sleepAfter"], shown["sleepAfterChosen"]) == (600, False)
    shown = daemon.request("PUT", box_path(box), {"sleepAfter": "1h"}).json()
    assert (shown["sleepAfter"], shown["sleepAfterChosen"]) == (3600, True)
    shown = daemon.request("PUT", box_path(box), {"sleepAfter": "default"}).json()
    assert (shown["sleepAfter"], shown["sleepAfterChosen"]) == (600, False)


def test_an_idle_box_sleeps_by_default(brisk):
    brisk.execute("idle", "true")
    asleep(brisk, "idle")
    assert brisk.execute("idle", "echo woken")["stdout"] == "woken\n"


def test_work_keeps_a_box_awake_where_nobody_chose(brisk):
    burn = "exec sh -c 'while :; do :; done'"
    start(brisk, "burns", burn, processId="b")
    brisk.request("PUT", box_path("chosen"), {"sleepAfter": "2s"})
    start(brisk, "chosen", burn, processId="b")
    asleep(brisk, "chosen")
    time.sleep(5)  # twice its time and more: what must not happen has no event
    assert state(brisk, "burns") == "running"
    brisk.request("DELETE", box_path("burns", "/api/process/b"))
    asleep(brisk, "burns")


def test_a_background_process_keeps_its_box_awake_if_it_says_so(brisk):
    start(brisk, "kept", "sleep 1000", processId="p", keepAlive=True)
    start(brisk, "not-kept", "sleep 1000", processId="p")
    asleep(brisk, "not-kept")
    time.sleep(3)  # as above
    assert state(brisk, "kept") == "running"
    assert brisk.request("GET", box_path("kept", "/api/process/p")).json()["process"]["keepAlive"] is True
    brisk.request("DELETE", box_path("kept", "/api/process/p"))
    asleep(brisk, "kept")


def test_a_command_whose_client_is_gone_keeps_its_box_awake(brisk):
    body = b'{"command":"mkfifo /root/go; read line </root/go; echo over >/root/over"}'
    with contextlib.closing(brisk.connect(unix=True)) as s:
        s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                  % (box_path("gone", "/api/execute").encode(), len(body), body))
        brisk.execute_alone("gone", "until [ -p /root/go ]; do sleep 0.05; done")
    time.sleep(3.5)  # as above
    assert state(brisk, "gone") == "running"
    brisk.execute_alone("gone", "echo >/root/go")
    asleep(brisk, "gone")
    assert brisk.execute("gone", "cat /root/over")["stdout"] == "over\n"


def test_a_box_that_woke_sleeps_again(brisk):
    brisk.execute("again", "echo $$ >/root/shell")
    for _ in range(3):
        asleep(brisk, "again")
        assert brisk.execute("again", "[ $$ = $(cat /root/shell) ] && echo the same shell")["stdout"] == "the same shell\n"
        assert state(brisk, "again") == "running"
    asleep(brisk, "again")


# ---- what wakes it


def read_until(ws, text):
    seen = b""
    while text not in seen:
        data = ws.receive()
        seen += data if isinstance(data, bytes) else data.encode()


def test_a_key_in_an_open_terminal_wakes(daemon, box):
    daemon.execute(box, "true")
    path = box_path(box, "/ws/pty") + "?sessionId=t"
    with contextlib.closing(wsclient.WebSocket(daemon.connect(unix=True), path)) as ws:
        ws.send_frame(wsclient.BINARY, b"echo rea''dy\n")
        read_until(ws, b"ready")
        put_to_sleep(daemon, box)
        ws.send_frame(wsclient.BINARY, b"echo awa''ke\n")
        read_until(ws, b"awake")
    assert state(daemon, box) == "running"


ECHO = """
def handle(c):
    h, rest = head(c)
    c.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: chess\\r\\nConnection: upgrade\\r\\n\\r\\nhello")
    while data := c.recv(100):
        c.sendall(data.upper())
"""


def test_a_tunnel_to_an_app_sleeps_with_its_box_and_a_byte_wakes_both(daemon, box):
    """A browser tab that was left open does not keep a box awake; what is typed there does."""
    daemon.request("PUT", box_path(box), {"sleepAfter": "2s"})
    app = boxapp.raw(boxapi.Api(daemon, box), 8080, ECHO)
    with contextlib.closing(daemon.connect(unix=True)) as s:
        s.sendall(f"GET {app.path('/game')} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: chess\r\n\r\n".encode())
        seen = b""
        while b"hello" not in seen:
            seen += s.recv(1000)
        for word in (b"first", b"second"):
            asleep(daemon, box)
            s.sendall(word)
            assert s.recv(100) == word.upper()
        assert state(daemon, box) == "running"


def test_contexts_go_on_after_sleep(daemon, box):
    api = boxapi.Api(daemon, box)
    context = codeapi.Context(api, "python")
    context("x = [1, 2]")
    put_to_sleep(daemon, box)
    assert context("x.append(3); x").result["text"] == "[1, 2, 3]"


# ---- swap


def test_a_sleeping_box_goes_to_swap_and_comes_back(brisk):
    program = ("import hashlib, os\n" "b = os.urandom(50 << 20)\n" "before = hashlib.md5(b).hexdigest()\n"
               "print('up', flush=True)\n" "open('/tmp/go').read()\n"
               "print('same' if hashlib.md5(b).hexdigest() == before else 'changed', flush=True)\n" "open('/tmp/go').read()\n")
    brisk.execute("swapped", "mkfifo /tmp/go; cat >/tmp/p.py", stdin=program)
    start(brisk, "swapped", "exec python3 /tmp/p.py", processId="p")

    def log():
        return brisk.request("GET", box_path("swapped", "/api/process/p/logs")).json()["stdout"].split()

    wait_for(lambda: log() == ["up"], "it runs")
    with swap.swap() as missing:
        if missing:
            pytest.skip(missing)
        put_to_sleep(brisk, "swapped")
        usage = wait_for(lambda: (u := brisk.inspect("swapped")["usage"])["swap"] > 50e6 and u, "its memory is in swap")
        assert usage["memory"] < 20e6, usage
        assert state(brisk, "swapped") == "asleep", "a look does not wake it"
        brisk.execute("swapped", "echo >/tmp/go")
        wait_for(lambda: log() == ["up", "same"], "its memory is what it was")
        brisk.destroy("swapped")


def test_the_sleep_of_a_box_is_in_the_metrics(daemon):
    assert "atoll_sleep_failures_total" in daemon.request("GET", "/metrics").text
