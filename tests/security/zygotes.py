"""The zygotes of a warden, seen from the host."""

from pathlib import Path


def zygotes(daemon):
    """Their numbers."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if b"atoll_worker.zygote" in (entry / "cmdline").read_bytes():
                    parent = (entry / "status").read_text().split("\nPPid:\t")[1].split()[0]
                    if int(parent) == daemon.warden_pid:
                        found.append(int(entry.name))
            except (OSError, IndexError):
                continue
    return found


def host_pid(daemon):
    """The number of the only one, once it is ready."""
    daemon.await_zygote()
    (pid,) = zygotes(daemon)
    return pid
