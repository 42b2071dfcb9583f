"""Hostile clients of the rpc transport: what an agent holds for them is bounded, and nothing of them stays."""

import json
import os
import socket

import pytest
from agentlib import AGENT, Agent
from atoll import wait_for
from capnwire import Rpc
from wsclient import TEXT, Closed

pytestmark = pytest.mark.skipif(not os.access(AGENT, os.X_OK), reason=f"{AGENT} is not built")
MIB = 1 << 20
HELD = 256  # CAPNWEB_ANSWERS_MAX, in MiB


@pytest.fixture
def agent():
    a = Agent()
    yield a
    assert a.close() == 0


@pytest.fixture
def rpc(agent):
    with Rpc(agent) as r:
        yield r


def lives(agent):
    with Rpc(agent) as r:
        assert r.result("utils.ping") == "pong"


def big_file(agent, mebibytes):
    path = os.path.join(agent.dir, "big")
    with open(path, "wb") as f:
        f.write(b"x" * (mebibytes * MIB))
    return path


# ---- frames


@pytest.mark.parametrize("message", ['["push",1]', '["push",["pipeline",0,["utils","ping"],[]]]', '["push",["pipeline",0,["utils","none"],[]]]',
                                     '["push",["pipeline",0,["utils"]]]', '["pipe"]'])
def test_a_million_results_that_nobody_asks_for(agent, rpc, message):
    rpc.flood(message for _ in range(1_000_000))
    code, reason = rpc.ended()
    assert code == 3000 and "too many" in reason
    lives(agent)
    assert agent.rss_kb("VmHWM") < 48 << 10


@pytest.mark.parametrize("frame", [["pull", 99], ["release", 99, 1], ["release", 1, 9], ["release", 0, 2], ["release", 1, -1],
                                   ["push", ["pipeline", 99, ["stream"], []]], ["push", ["import", 44]], ["push", ["readable", 1]], ["push", ["promise", 3]]])
def test_ids_that_are_not_there_end_the_session(agent, rpc, frame):
    first = rpc.push("utils.ping")
    frame = [first if part == 1 and i == 1 and frame[0] == "release" else part for i, part in enumerate(frame)]
    rpc.send(*frame)
    code, reason = rpc.ended()
    assert code == 3000 and len(reason) > 5
    lives(agent)


def test_answers_to_questions_that_were_not_asked_are_ignored(rpc):
    """As the npm package does: their question may have been released meanwhile."""
    rpc.send("resolve", 5, 1)
    rpc.send("reject", 7, ["error", "Error", "x"])
    assert rpc.result("utils.ping") == "pong"


def test_a_result_that_was_released_has_no_id_any_more(agent, rpc):
    first = rpc.push("utils.ping")
    rpc.send("release", first, 1)
    assert rpc.call("utils.ping") == first + 1  # and its number does not come again
    assert rpc.answer(first + 1) == (True, "pong")
    rpc.send("release", first, 1)
    assert rpc.ended()[0] == 3000
    lives(agent)


def test_an_object_that_the_client_names_twice(agent, rpc):
    """One id for two arguments is one object. A promise under an id that is taken is an error of that call."""
    rpc.send("push", ["pipeline", 0, ["utils", "ping"], [["export", -5], ["export", -5]]])
    rpc.send("push", ["pipeline", 0, ["utils", "ping"], [["promise", -5]]])
    rpc.pushed += 2
    for number in (rpc.pushed - 1, rpc.pushed):
        rpc.send("pull", number)
    assert rpc.answer(rpc.pushed - 1) == (True, "pong")
    assert rpc.result("utils.ping") == "pong"
    assert agent.rss_kb() < 16 << 10


@pytest.mark.parametrize("value", [["import", 1], ["import", 1, []], ["export", -1], {"a": ["import", 1]}, {"a": {"b": ["pipeline", 1, ["a"]]}}],
                         ids=["itself", "its-result", "its-id", "a-member", "a-part-of-itself"])
def test_a_promise_of_the_client_that_contains_itself(agent, rpc, value):
    """The references would be a cycle: a part of it is looked for, or its memory freed, without an end."""
    rpc.send("push", ["promise", -1])
    rpc.pushed += 1
    mine = {"import": rpc.pushed, "pipeline": rpc.pushed}
    text = json.dumps(value)
    for name, number in mine.items():
        text = text.replace(f'["{name}", 1', f'["{name}", {number}')
    rpc.ws.send(f'["resolve",-1,{text}]')
    for path in (["a"], ["a", "b"], ["a", "a", "a"]):
        rpc.send("push", ["pipeline", mine["import"], path])
        rpc.pushed += 1
        rpc.send("pull", rpc.pushed)
    assert rpc.result("utils.ping") == "pong"


def test_one_object_under_many_ids(agent, rpc):
    """Each pull of an object gives it another id, and nothing else is held."""
    first = rpc.pushed + 1
    rpc.flood(text for i in range(first, 200_000) for text in ('["push",["import",0]]', f'["pull",{i}]', f'["release",{i},1]'))
    code, reason = rpc.ended()
    assert code == 3000 and "too many" in reason
    lives(agent)
    assert agent.rss_kb("VmHWM") < 32 << 10


def test_half_of_a_surrogate_pair(agent, rpc):
    """What is left of an emoji that JavaScript has cut. It ends neither the call nor the session."""
    path = os.path.join(agent.dir, "cut")
    rpc.ws.send(json.dumps(["push", ["pipeline", 0, ["files", "writeFile"], [path, "a\ud83d", "default"]]]))
    rpc.pushed += 1
    rpc.send("pull", rpc.pushed)
    assert rpc.answer(rpc.pushed)[0]
    with open(path, encoding="utf-8") as f:
        assert f.read() == "a\ufffd"


def test_ends_of_tunnels_that_a_client_does_not_answer(agent, rpc):
    """1024 (RPC_EXITS_MAX) may wait; one more ends the session. A client that answers hears of all."""
    told = {"exit": {"id": "q", "port": 8080, "runId": "r", "exitCode": 0}}

    def tell():
        agent.post("/internal/tunnels", told)
        frame = rpc.until(lambda f: f[0] == "push")
        assert frame[1][:3] == ["pipeline", 0, ["onTunnelExit"]]
        return frame[-1]

    rpc.send("resolve", tell(), ["undefined"])
    assert rpc.result("utils.ping") == "pong"  # the answer was read
    for _ in range(1024):
        tell()
    assert rpc.result("utils.ping") == "pong"
    agent.post("/internal/tunnels", told)
    code, reason = rpc.ended()
    assert code == 3000 and "too many ends of tunnels" in reason
    lives(agent)


def test_a_deep_pipeline_is_a_loop(agent, rpc):
    """4000 calls, each on the result of the one before, the first of which is an error."""
    first = rpc.push("utils.none")
    for i in range(first, first + 4000):
        rpc.push("stream", of=i)
    rpc.send("pull", rpc.pushed)
    ok, value = rpc.answer(rpc.pushed)
    assert not ok and value[0] == "error"
    rpc.flood(f'["push",["pipeline",{rpc.pushed + i},["x"],[]]]' for i in range(1_000_000))
    assert "too many" in rpc.ended()[1]
    lives(agent)
    assert agent.rss_kb("VmHWM") < 32 << 10


def test_values_in_values_do_not_grow_for_ever(agent, rpc):
    """Each holds the one before four times: the hundredth would have 4 to the 100th parts."""
    rpc.send("push", "x" * 1000)
    rpc.pushed += 1
    for _ in range(100):
        rpc.send("push", {name: ["pipeline", rpc.pushed, []] for name in "abcd"})
        rpc.pushed += 1
    rpc.send("pull", rpc.pushed)
    try:
        assert not rpc.answer(rpc.pushed)[0]
    except Closed as e:
        assert "too many" in e.reason
    lives(agent)
    assert agent.rss_kb("VmHWM") < (2 * HELD + 128) << 10


@pytest.mark.parametrize("pieces", [1, 100])
def test_a_frame_of_100_mib(agent, rpc, pieces):
    n = 100 * MIB // pieces
    try:
        for i in range(pieces):
            last = i == pieces - 1
            rpc.ws.sock.sendall(bytes([(0x80 if last else 0) | (TEXT if i == 0 else 0), 0xFF]) + n.to_bytes(8, "big") + b"\0\0\0\0")
            for _ in range(0, n, MIB):
                rpc.ws.sock.sendall(b"[" * MIB)
    except OSError:
        pass  # refused before it was all there
    try:
        assert rpc.ended()[0] == 1009
    except ConnectionResetError:
        pass
    lives(agent)
    assert agent.rss_kb("VmHWM") < 72 << 10


# ---- answers


def test_answers_that_nobody_asks_for_are_bounded(agent, rpc):
    """1000 times 8 MiB."""
    path = big_file(agent, 8)
    for _ in range(1000):
        rpc.push("files.readFile", path, "default", {})
    code, reason = rpc.ended()
    assert code == 3000 and "too many bytes" in reason
    lives(agent)
    assert agent.rss_kb("VmHWM") < (2 * HELD + 128) << 10


def test_one_answer_for_many_pulls_with_a_client_that_does_not_read(agent, rpc):
    """1000 times 8 MiB, of which the socket takes a few."""
    first = rpc.push("files.readFile", big_file(agent, 8), "default", {})
    for _ in range(1000):
        rpc.send("push", ["pipeline", first, []])
        rpc.pushed += 1
        rpc.send("pull", rpc.pushed)
    for number in range(first + 1, first + 4):
        ok, value = rpc.answer(number)
        assert ok and len(value["content"]) == 8 * MIB
    lives(agent)
    assert agent.rss_kb("VmHWM") < 128 << 10


def start(rpc, command):
    return rpc.result("processes.startProcess", command, "default", {})["processId"]


def begun(rpc, number):
    """The pipe of a result that is a stream, when its first bytes have come. They are not acknowledged."""
    pipe = rpc.stream(number)
    rpc.until(lambda f: f[0] == "stream" and f[1][1] == pipe)
    return pipe


def test_floods_that_nobody_reads_or_acknowledges(agent):
    before = agent.fds()
    with Rpc(agent) as rpc:
        numbers = [rpc.call("commands.executeStream", "exec yes", "__DISABLE_SESSION__", {}) for _ in range(8)]
        for number in numbers:
            begun(rpc, number)
        with Rpc(agent) as other:  # a second client is served meanwhile
            for _ in range(200):
                assert other.result("utils.ping") == "pong"
        # Eight windows of 4 MiB, read by nobody.
        assert agent.rss_kb("VmHWM") < 96 << 10
    wait_for(lambda: not agent.children())
    wait_for(lambda: agent.fds() <= before)
    assert agent.rss_kb() < 32 << 10


def test_clients_that_leave_in_the_middle(agent):
    """Followers, watches and uploads of clients that are gone: nothing of them stays but what belongs to the box."""
    with Rpc(agent) as rpc:
        process = start(rpc, "while echo x; do sleep 0.01; done")
        before = agent.fds(spools=False)
        for _ in range(30):
            gone = Rpc(agent)
            begun(gone, gone.call("processes.streamProcessLogs", process))
            begun(gone, gone.call("watch.watch", {"path": agent.dir}))
            gone.send("pipe")
            gone.pushed += 1
            gone.send("push", ["pipeline", 0, ["files", "writeFileStream"], [f"{agent.dir}/up", ["readable", gone.pushed]]])
            gone.send("stream", ["pipeline", gone.pushed, ["write"], [["bytes", "eHh4"]]])
            gone.close()
        wait_for(lambda: agent.fds(spools=False) <= before)
        assert not [name for name in os.listdir(agent.dir) if name != "up" and "up" in name]
        assert rpc.result("processes.getProcess", process)["process"]["status"] == "running"
        rpc.result("processes.killProcess", process)
        wait_for(lambda: not agent.children())
    assert agent.rss_kb() < 16 << 10


def test_a_list_that_is_too_long_is_refused(agent, rpc):
    """Every byte of these commands is six in JSON: 64 MiB do not fit into one answer."""
    for _ in range(120):
        start(rpc, "exec sleep 600 #" + "\x01" * 100_000)
    error = rpc.refusal("processes.listProcesses")
    assert "too long" in error[2]
    assert rpc.result("utils.ping") == "pong"
    assert agent.call("DELETE", "/api/process/kill-all").status == 200


def test_a_socket_that_is_cut_within_a_frame(agent):
    before = agent.fds()
    for _ in range(50):
        r = Rpc(agent)
        whole = json.dumps(["push", ["pipeline", 0, ["utils", "ping"], []]]).encode()
        r.ws.sock.sendall(bytes([0x80 | TEXT, 0x80 | len(whole)]) + b"\0\0\0\0" + whole[:10])
        r.ws.sock.shutdown(socket.SHUT_WR)
        r.close()
    wait_for(lambda: agent.fds() <= before)
    lives(agent)
