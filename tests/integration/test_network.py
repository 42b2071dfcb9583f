"""The network of real sandboxes: what they reach, what they are told, and what the API says about it. The whole of Atoll runs
in a network namespace of its own; its internet is another one, with nginx and dnsmasq (gatelib)."""

import json
import os
import signal

import atoll as lib
import fixtures
import gatelib
import pytest
from gatelib import WEB
from netfix import log_of, patch, put, running, sh


def test_the_first_command_has_names_and_the_world(net):
    code, out = sh(net, "n-first", "cat /etc/resolv.conf; getent hosts web.example; curl -sS http://web.example/x; curl -skS https://web.example/y")
    assert code == 0, out
    assert out.split() == f"nameserver 192.0.0.1 {WEB} web.example http {WEB} web.example https {WEB} web.example".split()
    record = log_of(net, "n-first", port=443)
    assert record["decision"] == "allow" and record["name"] == "web.example" and record["received"] > 500
    seen = net.request("GET", "/v1/sandboxes/n-first").json()["network"]
    assert seen["mode"] == "open" and seen["connections"] >= 2 and seen["bytesReceived"] > 500
    metrics = net.request("GET", "/metrics").text
    assert "atoll_network_connections_total" in metrics and 'atoll_sandbox_network_connections_total{sandbox="n-first"} 2' in metrics


def test_a_list_is_kept_and_shown(net):
    put(net, "n-list", mode="list", allow=["web.example"])
    assert sh(net, "n-list", "curl -sS http://web.example/")[0] == 0
    code, out = sh(net, "n-list", "curl -sS http://two.example/ --resolve two.example:80:198.51.100.10")
    assert out.startswith("403 denied: this sandbox may not reach two.example port 80")
    assert sh(net, "n-list", "getent hosts two.example")[0] == 2
    shown = net.request("GET", "/v1/sandboxes/n-list/network").json()
    assert shown["mode"] == "list" and shown["allow"] == ["web.example"] and shown["own"] == {"mode": "list", "allow": ["web.example"]}
    assert shown["denied"] >= 2


def test_a_patch_counts_at_once(net):
    put(net, "n-patch", mode="off")
    assert sh(net, "n-patch", "curl -sS http://198.51.100.10/")[1].startswith(("403 denied", "curl: (56)", "curl: (7)"))
    assert patch(net, "n-patch", mode="list", allow=["web.example"])["mode"] == "list"
    assert sh(net, "n-patch", "curl -sS http://web.example/")[0] == 0
    assert patch(net, "n-patch", allow=["two.example"])["own"] == {"mode": "list", "allow": ["two.example"]}
    assert sh(net, "n-patch", "curl -sSf http://web.example/")[0] != 0
    assert sh(net, "n-patch", "curl -sSf http://two.example/")[0] == 0
    assert patch(net, "n-patch", allow=None, mode="open")["own"] == {"mode": "open"}


@pytest.mark.parametrize("network", [
    {"mode": "closed"}, {"allow": ["https://x.org"]}, {"allow": ["a..b"]}, {"deny": [1]}, {"allow": "x.org"}, {"rules": []},
    {"maxConnections": 0}, {"rateBps": 5}])
def test_bad_policies_are_refused_by_name(net, network):
    put(net, "n-bad")
    for method, path, body in (("PUT", "/v1/sandboxes/n-bad", {"network": network}), ("PATCH", "/v1/sandboxes/n-bad/network", network)):
        reply = net.request(method, path, body)
        assert reply.status == 400 and reply.json()["code"] == "VALIDATION_FAILED", reply
        field = reply.json()["context"]["validationErrors"][0]["field"]
        assert field == ("network." if method == "PUT" else "") + next(iter(network)), reply
    assert net.request("PATCH", "/v1/sandboxes/nobody/network", {}).status == 404
    assert net.request("DELETE", "/v1/sandboxes/n-bad/network").status == 405


def test_private_addresses_and_datagrams_need_rules(net, world):
    world.servers.ip("addr", "add", "10.88.0.1/32", "dev", "lo")
    put(net, "n-private")
    assert "Connection refused" in sh(net, "n-private", "curl -sS http://10.88.0.1:8080/ 2>&1 | sed s/Couldn.*/Connection\\ refused/")[1]
    patch(net, "n-private", allow=["10.88.0.0/16:8080"])
    assert sh(net, "n-private", "curl -sS http://10.88.0.1:8080/") == (0, "http 10.88.0.1 10.88.0.1\n")
    assert sh(net, "n-private", "curl -sSf http://169.254.169.254/")[0] != 0


def test_the_host_and_other_sandboxes_are_out_of_reach(net):
    put(net, "n-a")
    put(net, "n-b")
    assert sh(net, "n-a", "cd / && (python3 -m http.server 8080 >/dev/null 2>&1 &) ; "
                          "sh -c 'for i in $(seq 600); do curl -s http://127.0.0.1:8080/ >/dev/null && exit; sleep 0.1; done; exit 1'")[0] == 0
    port = net.address.rsplit(":", 1)[1]
    for address in ("192.0.0.2:8080", "192.0.0.1:8080", f"{gatelib.GATE}:{port}", f"127.0.0.1:{port}", "fd61:746f:6c6c::2"):
        code, out = sh(net, "n-b", f"curl -sSf --max-time 10 http://{address}/")
        assert code != 0, (address, out)


def test_the_log_can_be_followed(net):
    put(net, "n-follow")
    connection = lib._UnixConnection(net.socket, 20)
    connection.request("GET", "/v1/sandboxes/n-follow/network/log?follow=1")
    stream = connection.getresponse()
    assert stream.status == 200 and stream.getheader("Content-Type").startswith("text/event-stream")
    sh(net, "n-follow", "curl -sS http://web.example/")
    line = stream.readline()
    while not line.startswith(b"data: "):
        line = stream.readline()
    assert json.loads(line[6:])["name"] == "web.example"
    connection.close()


def test_the_command_line_shows_and_changes(net):
    put(net, "n-cli")

    def atoll(*words):
        r = net.cli("net", "n-cli", *words)
        return r.returncode, (r.stdout + r.stderr).decode()

    assert atoll()[1].startswith("mode    open\n")
    assert atoll("mode", "list")[0] == 0
    assert "allow   web.example\n" in atoll("allow", "web.example", "two.example")[1]
    assert sh(net, "n-cli", "curl -sSf http://web.example/")[0] == 0
    out = atoll("deny", "two.example")[1]
    assert "deny    two.example\n" in out and "allow   two.example" not in out
    assert "deny    " not in atoll("remove", "two.example")[1]
    log_of(net, "n-cli", name="web.example")
    assert "web.example:80" in atoll("log")[1]
    code, out = atoll("allow", "https://x")
    assert code == 1 and "cannot be read" in out
    for words in (("allow",), ("mode",), ("sing",), ("log", "x"), ("mode", "list", "-f")):
        assert atoll(*words)[0] == 2, words
    assert net.cli("net", "nobody").returncode == 1


def test_a_killed_gate_comes_back(net):
    put(net, "n-kill", mode="list", allow=["web.example"])
    assert sh(net, "n-kill", "curl -sS http://web.example/")[0] == 0
    for _ in range(2):
        pid = gate_pid(net)
        os.kill(pid, signal.SIGKILL)
        assert sh(net, "n-kill", "curl -sS http://web.example/") == (0, f"http {WEB} web.example\n")
        assert gate_pid(net) != pid
    assert sh(net, "n-kill", "curl -sSf http://two.example/")[0] != 0
    # What was open has no record of its own: a line says so, and counts nothing.
    log = net.request("GET", "/v1/sandboxes/n-kill/network/log").json()["log"]
    cut = [r for r in log if r["rule"] == "the gate was restarted"]
    assert len(cut) == 2 and cut[0]["end"] == "connections that were open have been cut" and cut[0]["name"] is None, log
    put(net, "n-kill-off", mode="off")
    os.kill(gate_pid(net), signal.SIGKILL)
    assert sh(net, "n-kill", "curl -sS http://web.example/")[0] == 0
    assert net.request("GET", "/v1/sandboxes/n-kill-off/network/log").json()["log"] == []


def gate_pid(net):
    def find():
        words = (net.run / "up.lock").read_text().split()
        pid = int(words[words.index("gate") + 1])
        return pid if pid and os.path.exists(f"/proc/{pid}") else None
    return lib.wait_for(find, "a gate")


def test_a_killed_warden_and_daemon_change_nothing(net, world):
    put(net, "n-restart", mode="list", allow=["web.example"])
    net.kill_warden()
    net.kill_daemon()
    for _ in range(3):
        assert sh(net, "n-restart", "curl -sS http://web.example/")[0] == 0
        assert sh(net, "n-restart", "curl -sSf http://two.example/")[0] != 0
    os.kill(gate_pid(net), signal.SIGKILL)
    net.kill_warden()
    assert sh(net, "n-restart", "sh -c 'for i in $(seq 600); do curl -s http://web.example/ && exit; sleep 0.1; done; exit 1'")[0] == 0
    net.request("DELETE", "/v1/sandboxes/n-restart")
    put(net, "n-restart")
    assert sh(net, "n-restart", "curl -sSf http://two.example/")[0] == 0


def test_defaults_come_from_the_environment(world):
    prefix = world.gate_space.argv(binds=((world.resolv, "/etc/resolv.conf"), (world.hosts, "/etc/hosts")))
    instance = lib.Instance({"ATOLL_ZYGOTE": "off", "ATOLL_NETWORK": "list", "ATOLL_NETWORK_ALLOW": "web.example, two.example",
                             "ATOLL_NETWORK_DENY": "two.example"}, prefix=prefix)
    try:
        instance.start()
        assert sh(instance, "d", "curl -sSf http://web.example/")[0] == 0
        assert sh(instance, "d", "curl -sSf http://two.example/")[0] != 0
        assert instance.request("GET", "/v1/sandboxes/d/network").json()["deny"] == ["two.example"]
    finally:
        fixtures.finish(instance)


# ---- sleep

def state(net, box):
    return net.request("GET", f"/v1/sandboxes/{box}").json()["state"]


def test_an_answer_on_an_open_connection_wakes_a_box(net, world):
    """The server answers when the test says so: the box sleeps by then."""
    go = world.tmp / "go"
    world.serve(f"import os,time\ns.recv(10); s.sendall(b'begun ')\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
                "s.sendall(b'answer'); s.close()", 7001)
    put(net, "n-wake", mode="open")
    code = ("import socket; s=socket.create_connection((%r,7001)); s.sendall(b'hello'); "
            "print(s.recv(6).decode(),flush=True); print(s.recv(6).decode(),flush=True)" % gatelib.OTHER)
    net.request("POST", "/v1/sandboxes/n-wake/api/process/start", {"command": f"exec python3 -c \"{code}\"", "processId": "p"})

    def log():
        return net.request("GET", "/v1/sandboxes/n-wake/api/process/p/logs").json()["stdout"].split()

    lib.wait_for(lambda: log() == ["begun"], "it is connected")
    lib.wait_for(lambda: net.request("POST", "/v1/sandboxes/n-wake/sleep").status == 200, "it is frozen")
    go.touch()
    lib.wait_for(lambda: state(net, "n-wake") == "running", "the answer wakes it")
    lib.wait_for(lambda: log() == ["begun", "answer"], "and is read")


def test_bytes_of_an_outbound_connection_keep_a_box_awake(net, world):
    world.serve("import time\ns.recv(10)\nwhile True: s.sendall(b'x'); time.sleep(0.1)", 7002)
    net.request("PUT", "/v1/sandboxes/n-busy", {"sleepAfter": "2s"})
    code = "import socket; s=socket.create_connection((%r,7002)); s.sendall(b'hello')\nwhile s.recv(1): pass" % gatelib.OTHER
    net.request("POST", "/v1/sandboxes/n-busy/api/process/start", {"command": f"exec python3 -c \"{code}\"", "processId": "p"})
    net.request("PUT", "/v1/sandboxes/n-idle", {"sleepAfter": "2s"})
    lib.wait_for(lambda: state(net, "n-idle") == "asleep", "a box without one sleeps")
    seen = []
    lib.wait_for(lambda: seen.append(state(net, "n-busy")) or len(seen) > 200, "it was looked at for seconds")
    assert set(seen) == {"running"}
    net.request("DELETE", "/v1/sandboxes/n-busy/api/process/p")
    lib.wait_for(lambda: state(net, "n-busy") == "asleep", "it sleeps when it may")


def test_a_sandbox_can_do_without_the_daemons_allow_list(world):
    """What is denied for all sandboxes counts all the same."""
    with running(world, {"ATOLL_NETWORK_ALLOW": "web.example,198.51.100.20", "ATOLL_NETWORK_DENY": "www.web.example"}) as net:
        put(net, "d-with", mode="list")
        assert sh(net, "d-with", "curl -sSf http://web.example/ && curl -sSf http://198.51.100.20/")[0] == 0
        shown = put(net, "d-without", mode="list", defaults=False)
        assert sh(net, "d-without", "curl -sSf http://web.example/")[0] != 0
        assert sh(net, "d-without", "curl -sSf http://198.51.100.20/")[0] != 0
        shown = net.request("GET", "/v1/sandboxes/d-without/network").json()
        assert shown["allow"] == [] and shown["deny"] == ["www.web.example"] and shown["own"] == {"mode": "list", "defaults": False}
        patch(net, "d-without", allow=["*.web.example", "web.example"])
        assert sh(net, "d-without", "curl -sSf http://web.example/")[0] == 0
        assert sh(net, "d-without", "curl -sSf http://www.web.example/")[0] != 0
        assert patch(net, "d-without", defaults=None)["allow"][0] == "web.example"
        assert sh(net, "d-without", "curl -sSf http://198.51.100.20/")[0] == 0
        reply = net.request("PATCH", "/v1/sandboxes/d-without/network", {"defaults": "no"})
        assert reply.status == 400 and "defaults" in reply.text, reply
