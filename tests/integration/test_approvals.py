"""Connections that wait until somebody approves them: `ask` of a network policy, /v1/approvals, `atoll approve`."""

import json
import re
import subprocess

import atoll as lib
from gatelib import OTHER, WEB, WEB2
from netfix import Running, approval, approvals, decide, log_of, patch, put, sh
from ttylib import Terminal


def test_a_held_request_goes_on_after_approval(net, world):
    put(net, "a-http", mode="list", ask=True)
    run = Running(net, "a-http", "getent hosts web.example; curl -sS http://web.example/x")
    asked = approval(net, sandbox="a-http")
    assert (asked["host"], asked["port"], asked["protocol"]) == ("web.example", 80, "http"), asked
    # Nothing about the name has left the host yet.
    assert "query[A] web.example from 198.51.100.1" not in world.dns_log.read_text()
    reply = decide(net, asked, "allow")
    assert reply.status == 200 and reply.json()["decision"] == "allow" and reply.json()["remember"] == "once", reply
    code, out = run.result()
    assert code == 0 and re.search(r"^198\.1[89]\.\d+\.\d+ +web\.example$", out, re.M), out
    assert f"http {WEB} web.example" in out
    assert log_of(net, "a-http", port=80)["rule"] == "approved once"
    # Once is once.
    run = Running(net, "a-http", "curl -sS http://web.example/x")
    asked = approval(net, sandbox="a-http")
    assert decide(net, asked, "deny").status == 200
    assert run.result()[1].startswith("403 denied: this sandbox may not reach web.example port 80 (ask: somebody denied it)")


def test_tls_is_asked_by_its_server_name(net):
    put(net, "a-tls", mode="list", ask=True)
    run = Running(net, "a-tls", "curl -skS https://two.example/y")
    asked = approval(net, sandbox="a-tls", host="two.example", port=443, protocol="tls")
    assert decide(net, asked, "allow", remember="once").status == 200
    assert run.result() == (0, f"https {WEB2} two.example\n")
    run = Running(net, "a-tls", "curl -skS https://two.example/y")
    assert decide(net, approval(net, sandbox="a-tls"), "deny").status == 200
    code, out = run.result()
    assert code == 35 and "alert access denied" in out, out


def test_remember_sandbox_makes_a_rule(net):
    put(net, "a-rule", mode="list", allow=["two.example"], ask=True)
    run = Running(net, "a-rule", "curl -sS http://web.example/")
    answer = decide(net, approval(net, sandbox="a-rule"), "allow", remember="sandbox").json()
    assert answer["rule"] == "web.example:80"
    assert run.result()[0] == 0
    assert net.request("GET", "/v1/sandboxes/a-rule/network").json()["own"]["allow"] == ["two.example", "web.example:80"]
    # Decided from now on, and looked up like any other name.
    code, out = sh(net, "a-rule", "curl -sS http://web.example/ && getent hosts web.example")
    assert code == 0 and out.split() == f"http {WEB} web.example {WEB} web.example".split(), out
    run = Running(net, "a-rule", "curl -sS http://other.example/")
    assert decide(net, approval(net, sandbox="a-rule"), "deny", remember="sandbox").json()["rule"] == "other.example:80"
    assert run.result()[1].startswith("403 denied")
    assert sh(net, "a-rule", f"curl -sS --resolve other.example:80:{OTHER} http://other.example/")[1].startswith("403 denied")
    assert not approvals(net, sandbox="a-rule")


def test_remember_always_counts_for_all_and_outlives_the_daemon(net):
    put(net, "a-all", mode="list", ask=True)
    put(net, "a-all2", mode="list")
    run = Running(net, "a-all", "curl -sS http://web.example/")
    asked = approval(net, sandbox="a-all")
    assert decide(net, asked, "allow", remember="always").status == 200
    assert run.result()[0] == 0
    assert sh(net, "a-all2", "curl -sSf http://web.example/")[0] == 0
    net.kill_daemon()
    assert sh(net, "a-all2", "curl -sSf http://web.example/")[0] == 0
    kept = net.request("GET", "/v1/approvals").json()["always"]
    assert kept == [{"id": asked["id"], "rule": "web.example:80", "decision": "allow"}]
    assert net.request("DELETE", f"/v1/approvals/{asked['id']}").status == 204
    assert net.request("DELETE", f"/v1/approvals/{asked['id']}").status == 404
    assert sh(net, "a-all2", "curl -sSf http://web.example/")[0] != 0


def test_a_question_ends_after_its_time(net):
    put(net, "a-late", mode="list", ask=True, askTimeout=1)
    assert sh(net, "a-late", "curl -sS http://web.example/")[1] == \
        "403 denied: this sandbox may not reach web.example port 80 (ask: nobody approved it within 1 s)\n"
    assert not approvals(net, sandbox="a-late")
    assert log_of(net, "a-late", port=80)["decision"] == "deny"
    for bad in (0, -1, "x", "1d", 3601, 1.5, True):
        reply = net.request("PATCH", "/v1/sandboxes/a-late/network", {"askTimeout": bad})
        assert reply.status == 400 and reply.json()["context"]["validationErrors"][0]["field"] == "askTimeout", (bad, reply)
    assert patch(net, "a-late", askTimeout="5m")["askTimeout"] == "5m"
    assert patch(net, "a-late", askTimeout=None)["askTimeout"] == 30


def test_a_client_that_goes_takes_its_question_along(net):
    put(net, "a-gone", mode="list", ask=True)
    sh(net, "a-gone", "(curl -sS -m 60 https://web.example/ >/dev/null 2>&1 & echo $! > /tmp/pid)")
    approval(net, sandbox="a-gone")
    sh(net, "a-gone", "kill -9 $(cat /tmp/pid)")
    lib.wait_for(lambda: not approvals(net, sandbox="a-gone"), "the end of the question")


def test_a_changed_policy_decides_what_waits(net):
    put(net, "a-change", mode="list", ask=True)
    run = Running(net, "a-change", "curl -sS http://web.example/")
    approval(net, sandbox="a-change")
    patch(net, "a-change", allow=["web.example"])
    assert run.result() == (0, f"http {WEB} web.example\n")
    run = Running(net, "a-change", "curl -skS https://two.example/")
    approval(net, sandbox="a-change")
    patch(net, "a-change", deny=["two.example"])
    assert run.result()[0] == 35
    run = Running(net, "a-change", "curl -sS http://other.example/")
    approval(net, sandbox="a-change")
    patch(net, "a-change", mode="off")
    assert run.result()[1].startswith("403 denied")


def test_protocols_in_which_the_server_speaks_first_are_asked(net, world):
    banner = world.start(world.servers, "/usr/bin/python3", "-c",
                         "import socket\ns=socket.create_server(('198.51.100.30',2525))\nprint('up',flush=True)\n"
                         "while True:\n c,_=s.accept(); c.sendall(b'220 hello\\r\\n'); c.recv(100); c.close()", stdout=subprocess.PIPE)
    banner.stdout.readline()
    put(net, "a-smtp", mode="list", ask=True)
    run = Running(net, "a-smtp", "python3 -c \"import socket; s=socket.create_connection(('other.example',2525)); print(s.recv(50)); s.send(b'QUIT')\"")
    asked = approval(net, sandbox="a-smtp", host="other.example", port=2525, protocol="tcp")
    assert decide(net, asked, "allow").status == 200
    assert run.result() == (0, "b'220 hello\\r\\n'\n")


def test_an_address_without_a_name_is_asked_as_an_address(net):
    put(net, "a-ip", mode="list", ask=True)
    for command in (f"curl -sS http://{WEB2}:8080/", f"curl -skS https://{WEB2}/"):
        run = Running(net, "a-ip", command)
        asked = approval(net, sandbox="a-ip", host=WEB2)
        assert asked["address"] == WEB2
        assert decide(net, asked, "allow").status == 200
        assert run.result()[0] == 0, run.reply
    # Also when the decision comes as a rule.
    for remember in ("once", "sandbox"):
        run = Running(net, "a-ip", f"curl -sS http://{WEB2}:8081/")
        assert decide(net, approval(net, sandbox="a-ip", host=WEB2), "deny", remember=remember).status == 200
        assert run.result()[1].startswith("403 denied:"), run.reply
    # What is never reachable is not asked.
    for address in ("10.0.0.7", "127.0.0.5", "169.254.169.254", "198.18.77.1"):
        assert sh(net, "a-ip", f"curl -sSf --max-time 10 http://{address}/")[0] != 0
    assert not approvals(net, sandbox="a-ip")


def test_connections_to_the_same_host_share_a_question(net):
    put(net, "a-share", mode="list", ask=True)
    runs = [Running(net, "a-share", "curl -sS http://web.example/", session=f"s{i}") for i in range(4)]
    asked = approval(net, sandbox="a-share")
    lib.wait_for(lambda: sh(net, "a-share", "grep -c ':0050 01' /proc/net/tcp")[1].strip() == "4", "four connections")
    assert len(approvals(net, sandbox="a-share")) == 1
    assert decide(net, asked, "allow", remember="sandbox").status == 200
    assert [r.result()[0] for r in runs] == [0] * 4


def test_bad_answers(net):
    put(net, "a-bad", mode="list", ask=True)
    run = Running(net, "a-bad", "curl -sS http://web.example/")
    asked = approval(net, sandbox="a-bad")
    for body, field in (({}, "decision"), ({"decision": "maybe"}, "decision"), ({"decision": 1}, "decision"),
                        ({"decision": "allow", "remember": "x"}, "remember")):
        reply = net.request("POST", f"/v1/approvals/{asked['id']}", body)
        assert reply.status == 400 and reply.json()["context"]["validationErrors"][0]["field"] == field, reply
    assert net.request("POST", "/v1/approvals/nothing", {"decision": "allow"}).json()["code"] == "APPROVAL_NOT_FOUND"
    assert net.request("GET", f"/v1/approvals/{asked['id']}").status == 405
    assert net.request("POST", "/v1/approvals/a%2fb", {"decision": "allow"}).status == 404
    assert decide(net, asked, "allow").status == 200
    assert decide(net, asked, "allow").status == 404
    assert run.result()[0] == 0


def events_of(net):
    connection = lib._UnixConnection(net.socket, 60)
    connection.request("GET", "/v1/approvals?follow=1")
    stream = connection.getresponse()
    assert stream.status == 200 and stream.getheader("Content-Type").startswith("text/event-stream")

    def events():
        for line in stream:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])
    return connection, events()


def test_the_event_stream_tells_of_questions_and_their_ends(net):
    put(net, "a-follow", mode="list", ask=True)
    connection, events = events_of(net)
    run = Running(net, "a-follow", "curl -sS http://web.example/")
    asked = next(e for e in events if e["sandbox"] == "a-follow")
    assert asked["type"] == "approval" and asked["host"] == "web.example" and asked["port"] == 80
    # A second client sees what waits already.
    second, more = events_of(net)
    assert next(more)["id"] == asked["id"]
    decide(net, asked, "allow")
    for stream in (events, more):
        ended = next(e for e in stream if e["sandbox"] == "a-follow")
        assert (ended["type"], ended["id"], ended["end"]) == ("ended", asked["id"], "allow")
    run.result()
    connection.close()
    second.close()


def test_a_killed_daemon_shows_the_same_questions_again(net):
    put(net, "a-kill", mode="list", ask=True)
    run = Running(net, "a-kill", "nohup curl -sS http://web.example/ > /tmp/out 2>&1 & wait")
    asked = approval(net, sandbox="a-kill")
    net.kill_daemon()
    again = approval(net, sandbox="a-kill")
    assert again == asked
    assert decide(net, again, "allow").status == 200
    assert lib.wait_for(lambda: sh(net, "a-kill", "cat /tmp/out")[1], "the answer") == f"http {WEB} web.example\n"
    del run


def test_the_command_line_lists_and_answers(net):
    put(net, "a-cli", mode="list", ask=True)
    run = Running(net, "a-cli", "curl -sS http://web.example/")
    asked = approval(net, sandbox="a-cli")
    out = net.cli("approve").stdout.decode()
    assert asked["id"] in out and "web.example:80" in out
    assert asked["id"] in [a["id"] for a in json.loads(net.cli("approve", "--json").stdout)["approvals"]]
    assert net.cli("approve", asked["id"], "--remember", "sandbox").returncode == 0
    assert run.result()[0] == 0
    run = Running(net, "a-cli", "curl -sS http://two.example/")
    approval(net, sandbox="a-cli")
    assert net.cli("approve", "--all", "--deny").returncode == 0
    assert run.result()[1].startswith("403 denied")
    r = net.cli("approve", "0123")
    assert r.returncode == 1 and b"no connection waits" in r.stderr
    for words in (("x", "--all"), ("--forget",), ("x", "--remember", "never")):
        assert net.cli("approve", *words).returncode == 2, words


def test_a_terminal_shows_and_answers(net):
    put(net, "a-tty", mode="list", ask=True)
    with Terminal([str(lib.BIN / "atoll"), "approve"], net.env) as t:
        t.wait("Waiting for connections")
        run = Running(net, "a-tty", "curl -sS http://web.example/")
        end = t.wait("a-tty wants to reach web.example:80 \\(http\\).*Enter to skip: ")
        t.type("what\r")
        end = t.wait("Enter to skip: ", end)
        t.type("s\r")
        t.wait("allowed for this sandbox", end)
        assert run.result() == (0, f"http {WEB} web.example\n")
        assert net.request("GET", "/v1/sandboxes/a-tty/network").json()["own"]["allow"] == ["web.example:80"]
        t.type("\x03")


def test_an_open_mode_asks_nothing(net):
    put(net, "a-open", mode="open", ask=True)
    assert sh(net, "a-open", "curl -sSf http://web.example/")[0] == 0
    assert not approvals(net, sandbox="a-open")


def test_the_python_sdk_asks_and_answers(net):
    program = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from atoll_sandbox import Sandbox
with Sandbox("a-sdk", url="unix:" + sys.argv[2], destroy_on_exit=True) as box:
    assert box.set_network({"mode": "list", "ask": True, "allow": ["two.example"]})["ask"] is True
    out = []
    t = threading.Thread(target=lambda: out.append(box.exec("curl -sS http://web.example/").stdout))
    t.start()
    while not (waiting := box.approvals()):
        pass
    assert (waiting[0]["host"], waiting[0]["port"]) == ("web.example", 80)
    assert box.approve(waiting[0]["id"], remember="sandbox")["rule"] == "web.example:80"
    t.join()
    assert box.get_network()["own"]["allow"] == ["two.example", "web.example:80"]
    assert box.set_network({"allow": None})["own"] == {"mode": "list", "ask": True}
    print(out[0], end="")
"""
    sdk = lib.ROOT / "sdk/python/src"
    out = subprocess.run(["/usr/bin/python3", "-c", program, sdk, net.socket], capture_output=True, text=True, timeout=60, check=False)
    assert (out.stdout, out.returncode) == (f"http {WEB} web.example\n", 0), out.stderr
