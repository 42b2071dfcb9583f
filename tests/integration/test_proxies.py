"""Proxies: the one that the host itself needs (ATOLL_EGRESS_PROXY), and those that programs in a box use (https_proxy)."""

import pathlib
import subprocess

import atoll as lib
import fixtures
import gatelib
import pytest
from gatelib import OTHER, WEB, WEB2
from netfix import log_of, make_net, patch, put, sh

PROXYD = pathlib.Path(gatelib.__file__).with_name("proxyd.py")


@pytest.fixture(scope="module")
def world(world):
    world.resolv_names = world.file("proxy-resolv.conf", f"nameserver {gatelib.DNS}\n")
    return world


class Proxy:
    def __init__(self, world, port, *login):
        self.log = world.tmp / f"proxy-{port}.log"
        world.start(world.servers, "/usr/bin/python3", PROXYD, OTHER, port, port + 1, *login, binds=((world.resolv_names, "/etc/resolv.conf"),),
                    stdout=self.log.open("w"), stderr=subprocess.STDOUT)
        lib.wait_for(lambda: "ready" in self.log.read_text(), "the proxy")

    def asked(self):
        return [line for line in self.log.read_text().splitlines() if line != "ready"]


@pytest.fixture(scope="module")
def proxy(world):
    return Proxy(world, 3128, "joe:se:cret@1")


@pytest.fixture(scope="module")
def plain(world):
    return Proxy(world, 3228)


@pytest.mark.parametrize("url, line", [
    (f"http://joe:se%3Acret%401@{OTHER}:3128", f"http CONNECT {WEB}:443"),
    (f"socks5://joe:se%3Acret%401@{OTHER}:3129", f"socks {WEB}:443"),
    ("httph://joe:se:cret%401@other.example:3128/", "http CONNECT web.example:443"),
    ("socks5h://joe:se:cret%401@other.example:3129", "socks web.example:443")])
def test_the_host_goes_out_through_its_proxy(world, proxy, url, line):
    net = make_net(world, {"ATOLL_EGRESS_PROXY": url})
    try:
        net.start()
        before = len(proxy.asked())
        assert sh(net, "p", "curl -skS https://web.example/a") == (0, f"https {WEB} web.example\n")
        assert proxy.asked()[before:] == [line]
        assert sh(net, "p", "curl -sS http://web.example/a")[0] == 0
        # Bytes that a server says first are not lost behind the proxy's answer.
        put(net, "p-list", mode="list", allow=["web.example", "two.example:8080"])
        assert sh(net, "p-list", "curl -skS https://web.example/a") == (0, f"https {WEB} web.example\n")
        assert sh(net, "p-list", "curl -sS http://two.example:8080/") == (0, f"http {WEB2} two.example\n")
        assert sh(net, "p-list", f"curl -sSk --resolve other.example:443:{OTHER} https://other.example/")[0] == 35
        # Addresses that are never reachable are not asked of the proxy either.
        asked = len(proxy.asked())
        assert sh(net, "p", "curl -sSf --max-time 10 http://10.0.0.7/")[0] != 0
        assert len(proxy.asked()) == asked
        assert "cret" not in (net.run / "up.lock").read_text()
    finally:
        fixtures.finish(net)


def test_a_proxy_that_refuses_is_a_destination_that_cannot_be_reached(world, proxy):
    net = make_net(world, {"ATOLL_EGRESS_PROXY": f"http://joe:wrong@{OTHER}:3128"})
    try:
        net.start()
        put(net, "p-list", mode="list", allow=["web.example"])
        assert sh(net, "p-list", "curl -sS http://web.example/")[1].startswith("502 web.example port 80 cannot be reached")
        assert log_of(net, "p-list", port=80)["name"] == "web.example"
    finally:
        fixtures.finish(net)


def test_programs_in_a_box_use_a_proxy_of_their_own(world, plain):
    net = make_net(world)
    curl = "https_proxy=http://other.example:3228 curl -skS -m 60"
    try:
        net.start()
        put(net, "b")
        assert sh(net, "b", f"{curl} https://web.example/") == (0, f"https {WEB} web.example\n")
        # Where names are looked at, proxy and destination both need a rule.
        patch(net, "b", mode="list", allow=["other.example:3228", "web.example"])
        assert sh(net, "b", f"{curl} https://web.example/") == (0, f"https {WEB} web.example\n")
        before = len(plain.asked())
        assert sh(net, "b", f"{curl} https://two.example/")[0] != 0
        assert sh(net, "b", f"{curl} https://{WEB}/")[0] != 0
        patch(net, "b", mode="list", allow=["web.example"])
        assert sh(net, "b", f"{curl} https://web.example/")[0] != 0
        patch(net, "b", mode="open", allow=None, deny=["two.example"])
        assert sh(net, "b", f"{curl} https://two.example/")[0] != 0
        assert len(plain.asked()) == before
        assert sh(net, "b", f"{curl} https://web.example/")[0] == 0
    finally:
        fixtures.finish(net)


def test_a_second_request_cannot_follow_one_that_the_proxy_refused(world, proxy):
    net = make_net(world)
    try:
        net.start()
        put(net, "b", mode="list", allow=["other.example:3128", "web.example"])
        before = len(proxy.asked())
        code = ("import socket; s=socket.create_connection(('other.example',3128)); "
                "s.sendall(b'CONNECT web.example:443 HTTP/1.1\\r\\nHost: web.example:443\\r\\n\\r\\nCONNECT two.example:443 HTTP/1.1\\r\\n\\r\\n'); "
                "print(s.recv(12)); s.sendall(b'CONNECT two.example:443 HTTP/1.1\\r\\n\\r\\n'); s.settimeout(60); print(len(s.recv(999)) < 900)")
        out = sh(net, "b", f"python3 -c \"{code}\"")[1]
        assert out.startswith("b'HTTP/1.1 407'"), out
        lib.wait_for(lambda: [line for line in proxy.asked()[before:] if line.startswith("more")], "the end of the connection")
        assert proxy.asked()[before:] == ["http web.example:443 407", "more -"]
    finally:
        fixtures.finish(net)


def test_a_bad_proxy_is_said_at_the_start(world):
    for bad in ("ftp://x:1", "http://x", "http://x:0", "http://:80", "socks5://a b:1", "http://u%zz@x:1"):
        out = subprocess.run([lib.BIN / "atoll-gate"], env={"ATOLL_EGRESS_PROXY": bad}, capture_output=True, text=True, check=False, timeout=60)
        assert out.returncode == 1 and "ATOLL_EGRESS_PROXY must be" in out.stderr, bad
