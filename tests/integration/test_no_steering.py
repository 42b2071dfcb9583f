"""A kernel without sk_lookup: a seccomp filter answers BPF_PROG_LOAD as such a kernel does, for the whole of `atoll up`."""

import json
import subprocess

import atoll as lib
import fixtures
import oldkernel
import pytest

PREFIX = oldkernel.without("bpf", "EINVAL", 0, 5)  # BPF_PROG_LOAD


@pytest.fixture(scope="module")
def old():
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    instance = lib.Instance({"ATOLL_ZYGOTE": "off"}, prefix=PREFIX)
    instance.start()
    yield instance
    fixtures.finish(instance)


def test_doctor_says_so():
    out = subprocess.run([*PREFIX, lib.BIN / "atoll", "doctor", "--json"], capture_output=True, text=True, check=False, timeout=120)
    rows = [row for row in json.loads(out.stdout)["checks"] if row["name"] == "steering"]
    assert len(rows) == 1 and "boxes start without a network" in str(rows[0]) and "5.9" in str(rows[0]), rows


def test_boxes_start_with_off_and_loudly(old):
    reply = old.request("PUT", "/v1/sandboxes/old", {"network": {"mode": "open"}})
    assert reply.status == 201 and reply.json()["network"]["mode"] == "off", reply
    assert "see atoll doctor" in reply.json()["network"]["reason"]
    shown = old.request("GET", "/v1/sandboxes/old/network").json()
    assert (shown["mode"], shown["own"]["mode"]) == ("off", "open") and "see atoll doctor" in shown["reason"]
    ran = old.request("POST", "/v1/sandboxes/old/api/execute", {"command": "echo works; curl -sS -m 20 http://198.51.100.10/"}).json()
    assert ran["stdout"] == "works\n" and ran["exitCode"] != 0
    for told in ("boxes have no network", "a sandbox starts without a network"):
        lib.wait_for(lambda told=told: old.logged(told), told)


def test_a_box_from_before_says_that_it_has_none(old):
    """The host can do it now, and the box was started when it could not: it stays without until it starts again."""
    assert old.request("PUT", "/v1/sandboxes/before", {"network": {"mode": "open"}}).status == 201
    assert old.interrupt() == 0
    old.prefix = []
    old.start()
    lib.wait_for(lambda: old.inspect("before")["state"] == "running", "the box again")
    seen = old.inspect("before")["network"]
    assert seen["mode"] == "off" and seen["reason"].startswith("it was started without a network"), seen
    shown = old.request("PATCH", "/v1/sandboxes/before/network", {"allow": ["10.1.0.0/16"]}).json()
    assert (shown["mode"], shown["own"]["mode"]) == ("off", "open") and shown["reason"] == seen["reason"]
    assert old.cli("net", "before").stdout.startswith(b"mode    off: it was started without a network")
    assert old.execute("before", "curl -sS -m 20 http://198.51.100.10/")["exitCode"] != 0
    # A new one beside it has a network, and so has this one when it has started again.
    fresh = old.request("PUT", "/v1/sandboxes/fresh").json()["network"]
    assert fresh["mode"] == "open" and "reason" not in fresh
    assert old.request("POST", "/v1/sandboxes/before/stop").status == 200
    stopped = old.inspect("before")["network"]
    assert stopped["mode"] == "open" and "reason" not in stopped
    old.execute("before", "true")
    again = old.request("GET", "/v1/sandboxes/before/network").json()
    assert again["mode"] == "open" and "reason" not in again
