"""Tunnels with ATOLL_TUNNELS=cloudflared: the box runs cloudflared, and its URL is the tunnel's.

The real cloudflared needs the internet and Cloudflare's servers, which tests do not have. A script of that name stands in for it in the box:
it writes what cloudflared writes for a quick tunnel (to stderr, the URL in a frame) and stays. No test here shows that Cloudflare answers."""

import json
import threading

import pytest
import wsclient
from atoll import Instance, box_path, wait_for
from boxapi import Api, check_error
from fixtures import what_is_missing

NAME = "seasonal-deck-organisms"
URL = f"https://{NAME}.trycloudflare.com"
SAYS = f"""#!/bin/sh
echo "$@" >/tmp/arguments
say() {{ echo "2024-05-01T10:00:00Z INF $*" >&2; }}
say 'Thank you for trying Cloudflare Tunnel. See (https://developers.cloudflare.com/cloudflare-one/connections/connect-apps)'
say 'Requesting new quick Tunnel on trycloudflare.com...'
say '+--------------------------------------------------------------------------------------------+'
say '|  Your quick Tunnel has been created! Visit it at (it may take some time to be reachable):  |'
printf '2024-05-01T10:00:00Z INF |  https://{NAME}.trycl' >&2
printf 'oudflare.com                                    |\\n' >&2
say '+--------------------------------------------------------------------------------------------+'
"""
STAYS = SAYS + "exec sleep 5151\n"
REFUSED = """#!/bin/sh
echo '2024-05-01T10:00:00Z INF Requesting new quick Tunnel on trycloudflare.com...' >&2
echo 'failed to request quick Tunnel: Post "https://api.trycloudflare.com/tunnel": dial tcp: lookup api.trycloudflare.com: no such host' >&2
exit 1
"""
GARBAGE = """#!/bin/sh
head -c 300000 /dev/urandom
printf ' https://api.trycloudflare.com \\n https://a.trycloudflare.com.example.org \\n'
printf ' https://a.b.trycloudflare.com \\n http://a.trycloudflare.com \\nhttps://a.trycloudflare.com/x \\n xhttps://a.trycloudflare.com \\n'
exit 3
"""
WAIT_MAX = 65  # clients for one tunnel that opens
SILENT = "#!/bin/sh\nexec sleep 5151\n"


@pytest.fixture(scope="module")
def cloudy():
    if what_is_missing():
        pytest.skip(what_is_missing())
    with Instance({"ATOLL_TUNNELS": "cloudflared"}) as instance:
        yield instance


@pytest.fixture
def box(cloudy, request):
    api = Api(cloudy, request.node.name.replace("_", "-").replace("[", "-").rstrip("]")[:40].strip("-"))
    yield api
    cloudy.request("DELETE", box_path(api.box))


def install(api, script):
    api.sh("true")
    assert api.put("/usr/local/bin/cloudflared", script.encode()).status in (200, 201, 204)
    api.sh("chmod 755 /usr/local/bin/cloudflared")


def listed(api):
    return api.call("/tunnels", method="GET").json()


def runs(api):
    return int(api.run("pgrep -fc 'sleep 515[1]'")["stdout"])


def test_the_url_of_cloudflared_is_the_tunnels(box):
    install(box, STAYS)
    r = box.call("/tunnels", {"port": 8080})
    made = r.json()
    assert r.status == 201 and (made["url"], made["hostname"], made["port"]) == (URL, f"{NAME}.trycloudflare.com", 8080)
    assert box.get("/tmp/arguments") == b"tunnel --no-autoupdate --url http://localhost:8080\n"
    again = box.call("/tunnels", {"port": 8080})
    assert (again.status, again.json()) == (200, made)
    assert listed(box) == {"tunnels": [made], "count": 1}
    assert box.call("/tunnels/8080", method="GET").json() == made
    domain = box.daemon.request("GET", "/", headers={"Host": f"{made['id']}.localhost"}, token=False)
    assert domain.status == 404, "the daemon has no host for it"
    assert runs(box) == 1
    assert box.call("/tunnels/8080", method="DELETE").status == 204
    wait_for(lambda: runs(box) == 0, "cloudflared has ended")
    assert listed(box)["tunnels"] == []
    assert box.call("/tunnels", {"port": 8080}).status == 201, "the port is free again"


def test_a_url_behind_much_output(box):
    install(box, STAYS.replace("say() {", "head -c 300000 /dev/urandom | base64 >&2\nsay() {"))
    assert box.call("/tunnels", {"port": 8080}).json()["url"] == URL


def test_a_box_that_sleeps(box):
    install(box, STAYS)
    assert box.call("/tunnels", {"port": 8080}).status == 201
    wait_for(lambda: box.call("/sleep").status == 200, "it is frozen")  # a busy machine may be too slow for the first
    assert len(listed(box)["tunnels"]) == 1
    assert box.call("/tunnels/8080", method="DELETE").status == 204
    assert box.daemon.request("GET", box_path(box.box)).json()["state"] == "asleep"
    wait_for(lambda: runs(box) == 0, "cloudflared ends when the box wakes")


def test_a_name_is_a_host_of_the_daemon(box):
    install(box, STAYS)
    made = box.call("/tunnels", {"port": 8080, "name": "named-here"}).json()
    assert made["hostname"] == "named-here.localhost" and runs(box) == 0


def test_a_box_without_it(box):
    box.sh("true")
    error = check_error(box.call("/tunnels", {"port": 8080}), "COMMAND_NOT_FOUND", 404)
    assert "install cloudflared in its image" in error["message"]
    assert listed(box)["tunnels"] == []


@pytest.mark.parametrize(("script", "code"), [(REFUSED, 1), (GARBAGE, 3)], ids=["refused", "garbage"])
def test_it_ends_without_a_url(box, script, code):
    install(box, script)
    error = check_error(box.call("/tunnels", {"port": 8080}), "PROCESS_ERROR", 500)
    assert f"ended with code {code}" in error["message"]
    process = error["message"].split("'")[1]
    assert box.call(f"/api/process/{process}/logs", method="GET").status == 200, "the named log is there"
    assert listed(box)["tunnels"] == []


def test_it_never_gives_a_url(box):
    install(box, SILENT)
    error = check_error(box.call("/tunnels", {"port": 8080}), "GATEWAY_TIMEOUT", 504)
    assert "gave no URL in 30 s" in error["message"]
    wait_for(lambda: runs(box) == 0, "cloudflared has ended")
    assert listed(box)["tunnels"] == []


def test_all_who_wait_get_it(box):
    install(box, SAYS.replace("say() {", "mkfifo /tmp/go; read -r _ </tmp/go\nsay() {") + "exec sleep 5151\n")
    replies = []
    waiting = [threading.Thread(target=lambda: replies.append(box.call("/tunnels", {"port": 8080}))) for _ in range(WAIT_MAX + 1)]
    for t in waiting:
        t.start()
    wait_for(lambda: replies, "one more than can wait is refused")
    check_error(replies[0], "LIMIT_REACHED", 429)
    wait_for(lambda: box.run("test -p /tmp/go")["exitCode"] == 0, "cloudflared runs")
    assert listed(box) == {"tunnels": [], "count": 0}, "one without a URL is not shown"
    assert box.call("/tunnels/8080", method="GET").status == 404
    box.sh("echo >/tmp/go")
    for t in waiting:
        t.join()
    assert len(replies) == WAIT_MAX + 1 and {r.json()["url"] for r in replies[1:]} == {URL} and runs(box) == 1
    assert sorted(r.status for r in replies[1:]) == [200] * (WAIT_MAX - 1) + [201]


def test_a_tunnel_that_is_closed_while_it_opens(box):
    install(box, SILENT)
    replies = []
    waiting = threading.Thread(target=lambda: replies.append(box.call("/tunnels", {"port": 8080})))
    waiting.start()
    wait_for(lambda: runs(box) == 1, "cloudflared runs")
    assert box.call("/tunnels/8080", method="DELETE").status == 204
    waiting.join()
    check_error(replies[0], "TUNNEL_NOT_FOUND", 404)
    wait_for(lambda: runs(box) == 0, "cloudflared has ended")


def test_rpc_clients_are_told_when_it_dies(box):
    install(box, STAYS)
    sock = box.daemon.connect()
    ws = wsclient.WebSocket(sock, f"{box.path('/rpc')}?token={box.daemon.token}", host=box.daemon.address)
    ws.send(["push", ["pipeline", 0, ["tunnels", "runQuickTunnel"], ["quick-1", 8080]]])
    ws.send(["pull", 1])
    kind, _, info = json.loads(ws.receive())
    assert kind == "resolve" and (info["id"], info["url"]) == ("quick-1", URL)
    box.sh("pkill -f 'sleep 515[1]'")
    told = json.loads(ws.receive())
    while told[0] != "push":
        told = json.loads(ws.receive())
    assert told[1][2] == ["onTunnelExit"] and told[1][3][:3] == ["quick-1", 8080, 143]
    assert listed(box)["tunnels"] == []
    ws.close()


def test_a_killed_daemon_finds_it_again(box):
    install(box, STAYS)
    made = box.call("/tunnels", {"port": 8080}).json()
    box.daemon.kill_daemon()
    assert listed(box)["tunnels"] == [made] and runs(box) == 1
    box.sh("pkill -f 'sleep 515[1]'")
    wait_for(lambda: listed(box)["tunnels"] == [], "the daemon sees it end")


def test_a_bad_setting_is_refused():
    with pytest.raises(AssertionError, match="ATOLL_TUNNELS must be daemon or cloudflared"):
        Instance({"ATOLL_TUNNELS": "ngrok"}).start()
