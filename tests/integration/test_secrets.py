"""Secrets of real sandboxes: made through the API, used by programs in a box, never seen there. The whole of Atoll runs in a
network namespace of its own; its internet is another one (gatelib)."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import sqlite3
import subprocess

import atoll as lib
import gatelib
import pytest
from gatelib import WEB2
from netfix import running

VALUE = "sk-live-" + os.urandom(16).hex()
ECHO = pathlib.Path(__file__).resolve().parents[1] / "lib/echoserver.py"
HOST = "two.example:8443"


@pytest.fixture(scope="module")
def world(world):
    process = world.start(world.servers, "/usr/bin/python3", ECHO, WEB2, 8443, world.tmp / "cert.pem", world.tmp / "key.pem",
                          stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "up\n"
    world.tmp.chmod(0o755)
    return world


@pytest.fixture(scope="module")
def net(world):
    with running(world, {"SSL_CERT_FILE": str(world.tmp / "cert.pem"), "ATOLL_LOG_LEVEL": "debug"}) as instance:
        yield instance


def put_secret(net, name="openai", **more):
    reply = net.request("PUT", f"/v1/secrets/{name}", {"value": VALUE, "hosts": [HOST], "env": "OPENAI_API_KEY", **more})
    assert reply.status in (200, 201), reply
    assert VALUE not in reply.text
    return reply.json()


def put(net, box, **settings):
    reply = net.request("PUT", f"/v1/sandboxes/{box}", settings)
    assert reply.status in (200, 201), reply
    return reply.json()


def sh(net, box, command, session=None):
    """(exit code, output). A session that runs keeps the variables that it was started with."""
    body = {"command": command, **({"sessionId": session} if session else {})}
    reply = net.request("POST", f"/v1/sandboxes/{box}/api/execute", body, timeout=60).json()
    return reply["exitCode"], reply["stdout"] + reply["stderr"]


def test_a_key_that_the_agent_cannot_read(net):
    made = put_secret(net)
    assert made["name"] == "openai" and made["hosts"] == [HOST] and made["lastUsedAt"] is None
    assert put(net, "s-key", secrets=["openai"])["secrets"] == ["openai"]
    code, out = sh(net, "s-key", "echo $OPENAI_API_KEY; cat /proc/*/environ | tr '\\0' '\\n' | grep -a OPENAI; env | grep CERT")
    place = out.split()[0]
    assert re.fullmatch("atoll_[0-9a-f]{32}", place) and VALUE not in out and "SSL_CERT_FILE=/dev/atoll/ca-certificates.crt" in out
    code, out = sh(net, "s-key", f'curl -sS https://{HOST}/v1 -H "Authorization: Bearer $OPENAI_API_KEY"')
    assert code == 0 and f"Bearer {VALUE}" in out, out
    lib.wait_for(lambda: net.request("GET", "/v1/secrets/openai").json()["lastUsedAt"], "the last use")
    listed = net.request("GET", "/v1/secrets")
    assert [s["name"] for s in listed.json()["secrets"]] == ["openai"] and VALUE not in listed.text
    # Other clients, each with its own idea of where certificates are.
    for command in (f"python3 -c 'import urllib.request as u; print(u.urlopen(\"https://{HOST}/\").status)'",
                    f"node -e 'fetch(\"https://{HOST}/\").then(r => console.log(r.status), e => console.log(e.cause))'",
                    f"env -u SSL_CERT_FILE -u CURL_CA_BUNDLE curl -sS -o /dev/null -w '%{{http_code}}' https://{HOST}/"):
        code, out = sh(net, "s-key", command)
        assert code == 0 and "200" in out, (command, out)
    # Another box of the same secret has another placeholder, and the first one's means nothing to it.
    put(net, "s-other", secrets=["openai"])
    code, out = sh(net, "s-other", f'echo $OPENAI_API_KEY; curl -sS https://{HOST}/ -H "X: {place}"')
    assert place not in out.split()[0] and VALUE not in out and place in out


def test_boxes_without_secrets_trust_nothing_new(net):
    put_secret(net)
    put(net, "s-none")
    code, out = sh(net, "s-none", "ls /dev/atoll; env | grep -c CERT; grep -c BEGIN /etc/ssl/certs/ca-certificates.crt; mount | grep -c atoll")
    without = out.split()
    assert without[0] == "0" and without[2] == "0", out
    put(net, "s-none", secrets=["openai"])
    ask = f'curl -sS https://{HOST}/ -H "X-Api-Key: $OPENAI_API_KEY"; echo'
    code, out = sh(net, "s-none", f"{ask}; grep -c BEGIN /etc/ssl/certs/ca-certificates.crt", "second")
    assert VALUE in out and int(out.split()[-1]) == int(without[1]) + 1, out
    # Nothing of it is in the layer: the file there is the image's own.
    code, out = sh(net, "s-none", "stat -c %D /etc/ssl/certs/ca-certificates.crt /etc/hostname; touch /etc/ssl/certs/ca-certificates.crt")
    devices = out.split()[:2]
    assert devices[0] != devices[1] and code != 0, out
    # Taken away: the variable is gone, and the host is no longer intercepted.
    put(net, "s-none", secrets=[])
    code, out = sh(net, "s-none", f"echo \"[$OPENAI_API_KEY]\"; curl -skS https://{HOST}/ -H 'K: x'", "third")
    assert "[]" in out and VALUE not in out


def test_it_is_there_after_restarts(net):
    """New ones each time: the row of a new sandbox may still say that it is being made."""
    put_secret(net, "kept", env="KEPT")
    for box in ("s-kept-1", "s-kept-2", "s-kept-3"):
        put(net, box, secrets=["kept"])
        code, before = sh(net, box, f'echo $KEPT; curl -sS https://{HOST}/ -H "X-Api-Key: $KEPT"')
        assert VALUE in before
        net.kill_daemon()
        net.kill_warden()
        net.await_warden()
        code, after = sh(net, box, f'echo $KEPT; curl -sS https://{HOST}/ -H "X-Api-Key: $KEPT"')
        assert VALUE in after and after.split()[0] == before.split()[0], after


USUAL = ["header:Authorization", "header:Proxy-Authorization", "header:X-Api-Key", "header:Api-Key", "header:Private-Token", "header:X-Goog-Api-Key"]


def test_places_of_a_placeholder(net):
    assert put_secret(net, "places", env="PLACES")["in"] == USUAL
    put(net, "s-places", secrets=["places"])
    for header in ("Authorization: Bearer", "X-Api-Key:", "api-key:", "PRIVATE-TOKEN:", "X-Goog-Api-Key:"):
        assert VALUE in sh(net, "s-places", f'curl -sS https://{HOST}/ -H "{header} $PLACES"')[1], header
    code, out = sh(net, "s-places", f'curl -sS "https://{HOST}/?q=$PLACES"')
    assert out.startswith("403 denied") and '"query:q"' in out and VALUE not in out, out
    log = net.request("GET", "/v1/sandboxes/s-places/network/log").json()["log"]
    assert any('"query:q"' in line["rule"] for line in log), log
    assert put_secret(net, "places", env="PLACES", **{"in": ["query:q"]})["in"] == ["query:q"]
    assert VALUE in sh(net, "s-places", f'curl -sS "https://{HOST}/?q=$PLACES"')[1]
    assert put_secret(net, "places", env="PLACES", **{"in": []})["in"] == []
    assert VALUE not in sh(net, "s-places", f'curl -sS https://{HOST}/ -H "Authorization: $PLACES"')[1]
    at_the_limit = [f"query:{'x' * 122}", *(f"query:{i}" for i in range(15))]
    assert put_secret(net, "places", **{"in": at_the_limit})["in"] == at_the_limit


def test_a_secret_from_before_there_were_places(net):
    """It means what it meant, and is warned of, until it is set anew."""
    put_secret(net, "old", env="OLD")
    assert net.interrupt() == 0
    with contextlib.closing(sqlite3.connect(pathlib.Path(net.data) / "daemon/state.db")) as db, db:
        value, = db.execute("SELECT value FROM items WHERE kind = 'secret' AND key = 'old'").fetchone()
        row = json.loads(value)
        assert row["about"].pop("in") == USUAL
        db.execute("UPDATE items SET value = ? WHERE kind = 'secret' AND key = 'old'", (json.dumps(row),))
    net.start()
    net.await_warden()
    put(net, "s-old", secrets=["old"])
    assert net.request("GET", "/v1/secrets/old").json()["in"] is None
    listed = net.cli("secret", "ls")
    assert listed.returncode == 0 and b"placeholders of old are replaced anywhere" in listed.stderr, listed
    for target in ("?q=$OLD", "$OLD"):
        assert VALUE in sh(net, "s-old", f'curl -sS "https://{HOST}/{target}"')[1]
    made = net.cli("secret", "set", "old", "--host", HOST, "--env", "OLD", "--in", "path", "--in", "header:X-Two", input=VALUE.encode())
    assert made.returncode == 0, made
    listed = net.cli("secret", "list")
    assert b"anywhere" not in listed.stdout + listed.stderr and b"path header:X-Two" in listed.stdout, listed
    assert VALUE not in sh(net, "s-old", f'curl -sS "https://{HOST}/?q=$OLD"')[1]
    assert VALUE in sh(net, "s-old", f'curl -sS "https://{HOST}/$OLD"')[1]


def test_deleting_ends_it_at_once(net):
    put_secret(net, "brief", env="BRIEF")
    put(net, "s-brief", secrets=["brief"])
    assert VALUE in sh(net, "s-brief", f'curl -sS https://{HOST}/ -H "X-Api-Key: $BRIEF"')[1]
    assert net.request("DELETE", "/v1/secrets/brief").status == 200
    assert net.request("DELETE", "/v1/secrets/brief").status == 404
    code, out = sh(net, "s-brief", f'curl -skS https://{HOST}/ -H "X-Api-Key: $BRIEF"')
    assert VALUE not in out


@pytest.mark.parametrize("body, field", [
    ({"hosts": ["a.example"]}, "value"), ({"value": "", "hosts": ["a.example"]}, "value"),
    ({"value": "a\nb", "hosts": ["a.example"]}, "value"), ({"value": "x" * 4097, "hosts": ["a.example"]}, "value"),
    ({"value": "v"}, "hosts"), ({"value": "v", "hosts": []}, "hosts"), ({"value": "v", "hosts": ["*"]}, "hosts"),
    ({"value": "v", "hosts": ["10.0.0.1"]}, "hosts"), ({"value": "v", "hosts": ["a b"]}, "hosts"), ({"value": "v", "hosts": ["udp://a.example:1"]}, "hosts"),
    ({"value": "v", "hosts": ["a.example"], "env": "1X"}, "env"), ({"value": "v", "hosts": ["a.example"], "header": "X: y"}, "header"),
    ({"value": "v", "hosts": ["a.example"], "header": "Host: {}"}, "header"), ({"value": "v", "hosts": ["a.example"], "aws": {}}, "aws"),
    ({"value": "v", "hosts": ["a.example"], "in": "path"}, "in"), ({"value": "v", "hosts": ["a.example"], "in": ["body"]}, "in"),
    ({"value": "v", "hosts": ["a.example"], "in": ["header:Host"]}, "in"), ({"value": "v", "hosts": ["a.example"], "in": ["header:a b"]}, "in"),
    ({"value": "v", "hosts": ["a.example"], "in": ["query:"]}, "in"), ({"value": "v", "hosts": ["a.example"], "in": ["query:" + "x" * 123]}, "in"),
    ({"value": "v", "hosts": ["a.example"], "in": [f"query:{i}" for i in range(17)]}, "in"),
    ({"value": "v", "hosts": ["a.example"], "other": 1}, None)])
def test_bad_input_is_named(net, body, field):
    reply = net.request("PUT", "/v1/secrets/bad", body)
    assert reply.status == 400, reply
    assert field is None or field in json.dumps(reply.json().get("context", {})), reply.text
    assert net.request("GET", "/v1/secrets/bad").status == 404


def test_unknown_secrets_and_names(net):
    assert net.request("PUT", "/v1/sandboxes/s-unknown", {"secrets": ["nothing"]}).status == 404
    assert net.request("GET", "/v1/sandboxes/s-unknown").status == 404
    assert net.request("PUT", "/v1/sandboxes/s-unknown", {"secrets": "nothing"}).status == 400
    assert net.request("PUT", "/v1/sandboxes/s-unknown", {"secrets": [f"n{i}" for i in range(33)]}).status == 400
    for name in ("-a", "a%2Fb", "a%20b", "x" * 65, "%00"):
        assert net.request("PUT", f"/v1/secrets/{name}", {"value": "v", "hosts": ["a.example"]}).status in (400, 404), name
    assert net.request("GET", "/v1/secrets/none").status == 404


def test_at_rest_it_is_encrypted(net):
    put_secret(net, "rest", aws={"accessKeyId": "AKIAEXAMPLE", "sessionToken": "token-" + VALUE})
    key = pathlib.Path(net.data) / "daemon/secrets.key"
    assert key.stat().st_mode & 0o777 == 0o600 and key.stat().st_size == 32
    gate = pathlib.Path(net.data) / "gate"
    assert gate.stat().st_mode & 0o777 == 0o700 and (gate / "ca.pem").stat().st_mode & 0o777 == 0o600
    assert (gate / "ca.pem").stat().st_uid == gate.stat().st_uid != (pathlib.Path(net.data) / "daemon").stat().st_uid
    for path in pathlib.Path(net.data).rglob("*"):
        if path.is_file() and "rootfs" not in path.parts and path.stat().st_size < 1 << 26:
            assert VALUE.encode() not in path.read_bytes(), path


def test_it_is_in_no_log_and_no_memory_of_the_daemon(net):
    value = "wipe-me-" + os.urandom(16).hex()
    put_secret(net, "wiped", value=value, env="WIPED")
    put(net, "s-wiped", secrets=["wiped"])
    # The server tells what it got. As output of a command it would pass through the daemon, like any other.
    got = sh(net, "s-wiped", f'curl -sS https://{HOST}/ -H "X-Api-Key: $WIPED" | grep -o "wipe-me-[0-9a-f]*" | head -n 1 | tr -d "\\n" | sha256sum')[1]
    assert got.split()[0] == hashlib.sha256(value.encode()).hexdigest()
    net.request("PUT", "/v1/secrets/wiped", {"value": value, "hosts": [value + "!"]})
    assert net.request("PUT", "/v1/secrets/wiped", '{"value": "%s", "hosts": [oops' % value).status == 400
    put_secret(net, "wiped", value=value, env="WIPED", aws={"accessKeyId": "AKIA", "sessionToken": value[::-1]})
    net.request("DELETE", "/v1/secrets/wiped")
    net.request("GET", "/v1/secrets")
    assert value not in net.log() and value[::-1] not in net.log()
    assert value[::-1].encode() not in gatelib.memory_of(net.daemon_pid), "the daemon's memory holds the session token"
    assert value.encode() not in gatelib.memory_of(net.daemon_pid), "the daemon's memory holds the value"
    assert os.stat(f"/proc/{net.daemon_pid}/environ").st_uid == 0, "another process of its user could read its memory"
