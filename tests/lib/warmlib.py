"""Node workers that wait in slots (src/warden/warm.h), seen from the host."""

import contextlib
import os
from pathlib import Path

import leaks
from atoll import box_path, wait_for
from boxapi import Api
from codeapi import Context


def namespace(pid):
    return os.readlink(f"/proc/{pid}/ns/pid")


def waiting(daemon):
    """The host's numbers of the workers in slots that are no box yet: {worker: the slot's first process}."""
    slots, nodes = {}, []
    for pid, name in leaks.processes(daemon.cgroup):
        with contextlib.suppress(OSError):
            if name == "atoll-slot":
                slots[namespace(pid)] = pid
            elif os.readlink(f"/proc/{pid}/exe").endswith("/node"):
                nodes.append((pid, namespace(pid)))
    return {pid: slots[where] for pid, where in nodes if where in slots}


def warmed(daemon, language="javascript", at_least=2):
    """Lets a box use the language, and returns the workers that wait afterwards."""
    api = Api(daemon, "warms-the-pool")
    Context(api, language)("1 + 1")
    daemon.destroy(api.box)
    wait_for(lambda: len(waiting(daemon)) >= at_least, "workers in slots")
    return waiting(daemon)


def host_pid(api, inside):
    """The host's number of a process of the box."""
    where = namespace(api.agent_pid())
    for pid, _ in leaks.processes(api.daemon.cgroup):
        with contextlib.suppress(OSError, IndexError):
            numbers = Path(f"/proc/{pid}/status").read_text().split("\nNSpid:\t")[1].splitlines()[0].split()
            if numbers[-1] == str(inside) and namespace(pid) == where:
                return pid
    raise AssertionError(f"no process {inside}")


def worker_of(api, context):
    """The host's number of a context's worker."""
    listed = {c["id"]: c["pid"] for c in api.call("/api/contexts", method="GET").json()["contexts"]}
    return host_pid(api, listed[context.id])


def new_box(daemon, box, **settings):
    reply = daemon.request("PUT", box_path(box), settings)
    assert reply.status == 201, reply
    return Api(daemon, box)
