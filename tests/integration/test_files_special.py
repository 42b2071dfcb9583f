"""Files that are not plain ones, through the API: links, pipes, sockets, devices, leases, and what the kernel makes up."""

import os

import pytest
from atoll import wait_for
from boxapi import check_error
from test_files import W, temporaries


def test_links_are_written_through(api):
    api.sh(f"cd {W} && mkdir d && echo old > d/real && ln -s d/real l1 && ln -s l1 l2 && ln -s l4 l3 && ln -s d/later l4")
    api.ok("/api/write", path=f"{W}/l2", content="one")
    api.ok("/api/write", path=f"{W}/l3", content="two")
    assert api.sh(f"cd {W} && cat d/real d/later && find . -type l | sort | xargs") == "onetwo./l1 ./l2 ./l3 ./l4\n"


def test_targets_that_are_no_files(api):
    api.sh(f"cd {W} && mkdir dir && mkfifo fifo && ln -s loop loop && ln -s dir linkdir && echo x > file")
    api.sh(f"python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"{W}/sock\")'")
    expected = {f"{W}/dir": ("IS_DIRECTORY", 400), f"{W}/linkdir": ("IS_DIRECTORY", 400), "/": ("IS_DIRECTORY", 400),
                f"{W}/fifo": ("NOT_REGULAR_FILE", 400), f"{W}/sock": ("NOT_REGULAR_FILE", 400),
                "/dev/null": ("NOT_REGULAR_FILE", 400), "/dev/zero": ("NOT_REGULAR_FILE", 400),
                "/dev/ptmx": ("NOT_REGULAR_FILE", 400), "/dev/stdin": ("NOT_REGULAR_FILE", 400),
                f"{W}/loop": ("TOO_MANY_LINKS", 500), f"{W}/file/x": ("NOT_DIRECTORY", 400),
                f"{W}/" + "y" * 256: ("NAME_TOO_LONG", 400)}
    for path, (code, status) in expected.items():
        error = api.fails("/api/write", code, status, path=path, content="x")
        assert error["context"] == {"path": path, "operation": "file.write"}
        check_error(api.put(path, b"x"), code, status)
        error = api.fails("/api/read", code, status, path=path)
        assert error["context"] == {"path": path, "operation": "file.read"}
        events = api.events("/api/read/stream", path=path)
        assert [e["type"] for e in events] == ["error"] and events[0]["code"] == code
        check_error(api.daemon.request("GET", api.file_url(path)), code, status)
    api.fails("/api/list-files", "NOT_DIRECTORY", 400, path=f"{W}/fifo")
    assert not temporaries(api)


def test_a_link_that_leads_nowhere_says_so(api):
    api.sh(f"ln -s /gone/away {W}/link")
    for route, operation in (("/api/read", "file.read"), ("/api/list-files", "directory.list")):
        error = api.fails(route, "FILE_NOT_FOUND", 404, path=f"{W}/link")
        assert f"'{W}/link': a symbolic link to '/gone/away', which does not exist" in error["message"]
        assert error["context"] == {"path": f"{W}/link", "operation": operation}
    assert api.events("/api/read/stream", path=f"{W}/link")[0]["code"] == "FILE_NOT_FOUND"
    check_error(api.daemon.request("GET", api.file_url(f"{W}/link")), "FILE_NOT_FOUND", 404)
    assert api.ok("/api/exists", path=f"{W}/link")["exists"] is False
    api.ok("/api/delete", path=f"{W}/link")


LEASE = """
import fcntl, os, signal, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
f = os.open("/workspace/leased", os.O_RDWR | os.O_CREAT)
os.write(f, b"mine")
fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)
open("/tmp/leased", "w").close()
time.sleep(60)
"""


def test_a_file_under_a_lease_blocks_nobody(api):
    api.put("/tmp/lease.py", LEASE.encode())
    api.ok("/api/process/start", command="python3 /tmp/lease.py")
    wait_for(lambda: api.ok("/api/exists", path="/tmp/leased")["exists"], "the lease is held")
    api.fails("/api/read", "RESOURCE_BUSY", 409, path=f"{W}/leased")
    api.ok("/api/write", path=f"{W}/leased", content="new")
    assert api.ok("/api/read", path=f"{W}/leased")["content"] == "new"


def test_where_nothing_may_be_written(api):
    api.fails("/api/write", "READ_ONLY", 403, path="/dev/new", content="x")
    api.fails("/api/write", "PERMISSION_DENIED", 403, path="/proc/sys/kernel/hostname", content="x")
    api.fails("/api/mkdir", "READ_ONLY", 403, path="/dev/new")
    api.fails("/api/delete", "READ_ONLY", 403, path="/dev/null")
    api.fails("/api/rename", "READ_ONLY", 403, oldPath="/dev/null", newPath="/dev/nix")
    api.fails("/api/delete", "READ_ONLY", 403, path="/proc/cpuinfo")
    api.fails("/api/mkdir", "FILE_NOT_FOUND", 404, path="/proc/new")


@pytest.mark.parametrize("path", ["/proc/cpuinfo", "/proc/self/status", "/proc/self/mountinfo", "/proc/self/environ"])
def test_files_that_the_kernel_makes_up(api, path):
    assert os.stat(path).st_size == 0
    answer = api.ok("/api/read", path=path, encoding="utf-8")
    assert answer["size"] == len(answer["content"].encode()) > 0
    assert len(api.get(path)) > 0
    events = api.events("/api/read/stream", path=path)
    assert events[0]["size"] == events[-1]["bytesRead"] > 0
