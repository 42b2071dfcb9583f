"""The remains of an instance of Atoll on the host. They are found by the instance's own names, so that several instances
and test runs can work side by side: the cgroup directory of its warden, and its two directories."""

import os
import re
from pathlib import Path

CGROUP_NAME = re.compile(r"/(atoll-[0-9a-f]+)(?:/|$)")


def children(pid):
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def cgroup_name(warden_pid):
    """The warden's own cgroup directory, read from one of the boxes that it keeps ready; None while there is none."""
    for pid in children(warden_pid):
        try:
            found = CGROUP_NAME.search(Path(f"/proc/{pid}/cgroup").read_text())
        except OSError:
            continue
        if found:
            return found.group(1)
    return None


def cgroup_roots():
    roots = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, kind = line.split(" - ")[0].split(), line.split(" - ")[1].split()[0]
        if kind in ("cgroup", "cgroup2"):
            roots.append(Path(fields[4]))
    return roots


def cgroups(name):
    """Every cgroup directory of the instance, in all hierarchies."""
    found = []
    for root in cgroup_roots():
        own = root / name
        if own.is_dir():
            found += [Path(d) for d, _, _ in os.walk(own)]  # which does not mind what vanishes meanwhile
    return found


def group_of(text):
    """The lines of /proc/PID/cgroup, each with the box's group in place of the leaf for its agent or its commands
    (src/cage/cgroup.h); without hierarchies that other test runs mount and unmount meanwhile."""
    return [re.sub("/(agent|commands)$", "", line) for line in text.splitlines() if ":name=atoll-" not in line]


def in_leaf(pid):
    """Whether the process is among the commands of a box, in each hierarchy that has a leaf for them."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    v1 = {name for _, names, _ in lines for name in names.split(",")} & {"memory", "cpu"}
    wanted = [path for _, names, path in lines if v1 & set(names.split(",")) or (v1 != {"memory", "cpu"} and not names)]
    return bool(wanted) and all(path.endswith("/commands") for path in wanted)


def groups(pid):
    """The cgroup of a process in each hierarchy, by the hierarchy's controllers; "" is the unified one."""
    return {names: path for _, names, path in (line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())}


def processes(name):
    """(pid, command) of everything that lives in the instance's cgroups, but for the gate and the daemon, which end with `atoll up`."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            text = Path(f"/proc/{entry}/cgroup").read_text()
            if re.search(rf"/{name}(\n|/(?!(gate|daemon)\n))", text):
                found.append((int(entry), Path(f"/proc/{entry}/comm").read_text().strip()))
        except OSError:
            continue
    return found


def agents(name):
    """The host's pids of the agents: one for each living box (boxes that are kept ready have none yet)."""
    found = []
    for pid, _ in processes(name):
        try:
            if "atoll-agent" in os.readlink(f"/proc/{pid}/exe"):
                found.append(pid)
        except OSError:
            continue
    return found


def mounts(base):
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {base}/" in line]


def find(name, base):
    """A list of sentences, empty when nothing is left."""
    left = [f"mount: {m}" for m in mounts(base)]
    if name:
        left += [f"process: {pid} ({comm})" for pid, comm in processes(name)]
        left += [f"cgroup: {d}" for d in cgroups(name)]
    return left
