"""A FUSE server without a library, for tests: runs inside a box, mounts through fusermount3, and behaves as badly as it is
told. Its text is `PROGRAM`; usage: python3 fs.py MODE PATH [OPTIONS].

    empty    answers: an empty directory
    hang     answers the kernel's hello, then nothing
    knot     as hang, and a thread of the same process waits for the mount: cannot be killed without an abort
    ask      mounts, prints the outcome, ends
"""

PROGRAM = r'''
import array, os, socket, struct, subprocess, sys, threading

def mount(path, options="rw"):
    ours, theirs = socket.socketpair()
    env = dict(os.environ, _FUSE_COMMFD=str(theirs.fileno()))
    r = subprocess.run(["fusermount3", "-o", options, "--", path], env=env, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True)
    if r.returncode:
        sys.exit(r.stderr.strip())
    fds = array.array("i")
    _, control, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
    fds.frombytes(control[0][2][:4])
    ours.close(); theirs.close()
    return fds[0]

def attr(ino):
    return struct.pack("<6Q10I", ino, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)

def serve(fd, answer_all, on_ready):
    while True:
        try:
            request = os.read(fd, 1 << 20)
        except OSError:
            return
        size, op, unique, node = struct.unpack_from("<IIQQ", request)
        if op == 26:  # INIT
            body = struct.pack("<IIIIHHIIHHI", 7, 31, 4096, 0, 8, 8, 65536, 1, 1, 0, 0).ljust(64, b"\0")
            os.write(fd, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)
            on_ready()
        elif not answer_all:
            continue
        elif op == 3:  # GETATTR
            body = struct.pack("<QII", 0, 0, 0) + attr(1)
            os.write(fd, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)
        elif op in (2, 42):  # FORGET
            continue
        else:
            os.write(fd, struct.pack("<IiQ", 16, -38, unique))

mode, path = sys.argv[1], sys.argv[2]
fd = mount(path, *sys.argv[3:4])
ready = lambda: print("ready", flush=True)
if mode == "ask":
    ready()
elif mode == "knot":
    def wait():
        try:
            os.listdir(path)
        except OSError:
            pass
    def tied():
        threading.Thread(target=wait, daemon=True).start()
        ready()
    serve(fd, False, tied)
else:
    serve(fd, mode == "empty", ready)
'''


def put(api):
    """Leaves the program in the box as /tmp/fs.py."""
    assert api.put("/tmp/fs.py", PROGRAM.encode()).status in (200, 201)


def start(api, mode, path, options="rw"):
    """A background process that serves `path`; returns its id when the mount is there."""
    log = f"/tmp/fs-{path.strip('/').replace('/', '-')}.log"
    api.sh(f"mkdir -p {path}; rm -f {log}; mkfifo {log}")
    process = api.ok("/api/process/start", command=f"exec python3 /tmp/fs.py {mode} {path} {options} >{log}")["processId"]
    assert api.sh(f"timeout 60 head -n1 {log}") == "ready\n"
    return process
