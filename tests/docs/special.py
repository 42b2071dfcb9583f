"""Daemons and servers for blocks that need more than a plain daemon: a bucket, a registry, sshd, TLS."""

import contextlib
import os
import socket
import subprocess
import tempfile
from pathlib import Path

import atoll as lib
import examples
import fixtures
import internet
import pytest
import s3server
from imagelib import built, image_instance
from registry import registry

ROOT = Path(__file__).resolve().parents[2]
SSHD = "/usr/sbin/sshd"
BUCKETS = "s3.example.com"
REGISTRY = "registry.example.org"


def page(name):
    return (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")


def block(name, beginning):
    """The block of a page that begins with these words, with continued lines joined."""
    found = [text for text in examples.blocks(page(name)) if text.text.startswith(beginning)]
    assert len(found) == 1, f"{name}.md has {len(found)} blocks that begin with '{beginning}'"
    return found[0].text.replace("\\\n", " ")


def replaced(text, words):
    for old, new in words.items():
        assert old in text, f"'{old}' is not in\n{text}"
        text = text.replace(old, str(new))
    return text


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def place():
    """Not one of pytest's directories, which are for root alone and have names that are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="at-doc-", dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@contextlib.contextmanager
def with_bucket():
    """A daemon whose boxes reach a bucket. The words of the page become those of the server."""
    if missing := fixtures.what_is_missing():
        pytest.skip(missing)
    with place() as here, s3server.on_loopback(here, BUCKETS) as server, internet.Internet({}, {BUCKETS: server.port}) as net:
        instance = lib.Instance({"ATOLL_EGRESS_PROXY": net.proxy, "ATOLL_ZYGOTE": "off", "SSL_CERT_FILE": str(server.pair[0])})
        try:
            instance.start()
            instance.words = {"AKIAEXAMPLE": server.key_id}
            instance.variables = {"SECRET_KEY": server.secret}
            yield instance
        finally:
            fixtures.finish(instance)


@contextlib.contextmanager
def with_registry(images):
    """A daemon with a small default image, and a registry that is also the mirror of the public one."""
    with place() as here, registry(here / "registry") as server:
        mirrors = here / "registries.conf"
        mirrors.write_text('unqualified-search-registries = []\n[[registry]]\nprefix = "docker.io/library"\nlocation = "far.invalid/library"\n'
                           f'[[registry.mirror]]\nlocation = "{server.local}/library"\ninsecure = true\n', encoding="utf-8")
        with image_instance(images, {"ATOLL_REGISTRY_CONF": str(mirrors)}) as instance:
            built(instance, "FROM default\nRUN echo alpine > /name\n", query="tag=public")
            assert instance.cli("push", "public", f"{server.local}/library/alpine:3.19").returncode == 0
            assert instance.cli("image", "rm", "public").returncode == 0
            instance.words = {REGISTRY: server.local}
            yield instance


@contextlib.contextmanager
def sshd(here):
    """A server for root on loopback; yields the options of `ssh` for it."""
    if not os.path.exists(SSHD):
        pytest.skip("openssh-server is not installed")
    port = free_port()
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", here / name], check=True)
    os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # Debian's sshd does not start without it
    options = {"ListenAddress": "127.0.0.1", "Port": port, "HostKey": here / "host", "AuthorizedKeysFile": here / "user.pub", "StrictModes": "no",
               "UsePAM": "no", "PidFile": "none", "PermitRootLogin": "yes"}
    (here / "sshd").write_text("".join(f"{k} {v}\n" for k, v in options.items()), encoding="utf-8")
    (here / "ssh").write_text(f"Host host\n HostName 127.0.0.1\n Port {port}\n IdentityFile {here}/user\n IdentitiesOnly yes\n"
                              f" UserKnownHostsFile {here}/known\n StrictHostKeyChecking accept-new\n LogLevel ERROR\n", encoding="utf-8")
    with subprocess.Popen([SSHD, "-D", "-e", "-f", here / "sshd"], stderr=subprocess.PIPE, text=True) as server:
        try:
            said = ""
            while "listening" not in said:
                line = server.stderr.readline()
                assert line, f"sshd ended: {said}"
                said += line
            yield f"-F {here}/ssh"
        finally:
            server.terminate()


def await_path(path):
    lib.wait_for(lambda: os.path.exists(path), f"{path} exists")
