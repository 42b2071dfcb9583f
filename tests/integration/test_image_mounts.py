"""RUN --mount: caches that stay, files and secrets that are there for one command, and nothing of them in a layer."""
import base64
import json
import os
import signal
import subprocess
import threading

import pytest
from atoll import BIN, wait_for
from imagelib import begin_build, build, built, events, image_instance, no_work_left, run, step_box, tar_of, work_boxes

CACHE = "atoll.build.cache."


@pytest.fixture(scope="module", name="atoll")
def fixture_atoll(tmp_path_factory):
    with image_instance(tmp_path_factory.mktemp("images")) as instance:
        kind = instance.request("GET", "/v1/health").json()["host"]["pool"]
        if kind["kind"] == "plain":
            pytest.skip(f"no pool on this host: {kind['reason']}")
        yield instance


def said(found):
    return "".join(e["text"] for e in found if e["type"] == "output")


def cached(found):
    return [e["type"] for e in found].count("cached")


def message(reply):
    return (reply.json() if reply.status != 200 else events(reply)[-1])["message"]


def volumes(atoll):
    return [v["name"] for v in atoll.request("GET", "/v1/volumes").json()["volumes"]]


def with_secrets(atoll, dockerfile, secrets, query="tag=secret", files=()):
    hidden = json.dumps({name: base64.b64encode(value).decode() for name, value in secrets.items()}).encode()
    body = hidden + tar_of([("Dockerfile", dockerfile.encode(), {}), *files])
    return atoll.request("POST", f"/v1/images/build?{query}&secrets={len(hidden)}", body, timeout=120)


# ---- caches

def test_a_cache_stays_for_the_next_build_and_out_of_the_layer(atoll):
    text = "FROM default\nRUN mkdir -p /var/tool && echo own > /var/tool/own\n" \
           "RUN --mount=type=cache,target=/var/tool --mount=type=cache,id=%s,target=/new/deep,uid=7,mode=700 " \
           "ls /var/tool; stat -c %%u:%%a /new/deep; echo %d >> /var/tool/runs; cat /var/tool/runs\n"
    assert said(built(atoll, text % ("a", 1))) == "7:700\n1\n"
    # Another command, so another step: with the same cache.
    assert said(built(atoll, text % ("a", 2))) == "runs\n7:700\n1\n2\n"
    found = built(atoll, text % ("a", 2))
    assert cached(found) == 2 and not said(found)
    # --no-cache is about steps.
    assert said(built(atoll, text % ("a", 2), query="tag=built&nocache=1")).endswith("1\n2\n2\n")
    assert run(atoll, "a", "built", "ls /var/tool; ls -d /new") == "own\nls: /new: No such file or directory\n"
    # Another target with the same id is the same cache.
    assert said(built(atoll, "FROM default\nRUN --mount=type=cache,id=/var/tool,target=/else cat /else/runs\n")) == "1\n2\n2\n"


def test_a_cache_can_begin_with_files_of_a_stage_and_be_read_only(atoll):
    text = "FROM default AS seed\nRUN mkdir /seed && echo %s > /seed/f\nFROM default\n" \
           "RUN --mount=type=cache,id=seeded,target=/c,from=seed,source=/seed cat /c/f\n"
    assert said(built(atoll, text % "first")) == "first\n"
    assert said(built(atoll, text % "second", query="tag=built&nocache=1")) == "first\n"
    last = events(build(atoll, "FROM default\nRUN --mount=type=cache,id=seeded,target=/c,readonly cat /c/f; echo > /c/g\n"))[-1]
    assert "code 1" in last["message"]


def mounting(sharing, name, command):
    return f"FROM default\nRUN --mount=type=cache,id={name},target=/c,sharing={sharing} {command}\n"


ENDLESS = "touch /c/mine; echo begun; while :; do sleep 1; done"


@pytest.mark.parametrize("sharing, seen", [("shared", "mine\n"), ("private", "")])
def test_caches_of_builds_at_the_same_time(atoll, sharing, seen):
    with begin_build(atoll, mounting(sharing, sharing, ENDLESS)):
        assert said(built(atoll, mounting(sharing, sharing, "ls /c; echo done"), query="tag=beside&nocache=1")) == seen + "done\n"
        # A cache in use is not removed.
        assert atoll.request("POST", "/v1/images/prune").status == 200
        assert [v for v in volumes(atoll) if v.startswith(CACHE)]
    wait_for(lambda: no_work_left(atoll), "the build's boxes to be gone", 60)


def test_a_locked_cache_is_waited_for(atoll):
    first = begin_build(atoll, mounting("locked", "locked", ENDLESS))
    second = atoll.connect(unix=True)
    context = tar_of([("Dockerfile", mounting("locked", "locked", "ls /c; echo finished").encode(), {})])
    second.sendall(b"POST /v1/images/build?tag=second HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(context) + context)
    answer = b""
    while b"waiting for a cache" not in answer:
        piece = second.recv(65536)
        assert piece, answer
        answer += piece
    assert b"finished\\n" not in answer
    first.close()
    while piece := second.recv(65536):
        answer += piece
    assert b"mine\\n" in answer and b"finished\\n" in answer and b'"type":"done"' in answer
    second.close()


def test_one_who_waits_for_a_cache_can_be_cancelled(atoll):
    first = begin_build(atoll, mounting("locked", "cancelled", ENDLESS))
    second = atoll.connect(unix=True)
    context = tar_of([("Dockerfile", mounting("locked", "cancelled", "true").encode(), {})])
    second.sendall(b"POST /v1/images/build HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(context) + context)
    answer = b""
    while b"waiting for a cache" not in answer:
        answer += second.recv(65536)
    boxes = len(work_boxes(atoll))
    second.close()
    wait_for(lambda: len(work_boxes(atoll)) < boxes, "the boxes of the second build to be gone", 60)
    first.close()
    wait_for(lambda: no_work_left(atoll), "the boxes of the first build to be gone", 60)


def test_usage_and_prune_know_caches(atoll):
    atoll.request("POST", "/v1/images/prune")

    def usage():
        return atoll.request("GET", "/v1/images?usage=true").json()["usage"]

    before = usage()
    assert (before["caches"], before["cacheBytes"]) == (0, 0)
    built(atoll, "FROM default\nRUN --mount=type=cache,target=/c /bin/busybox dd if=/dev/urandom of=/c/f bs=1M count=8; /bin/busybox sync\n",
          query="tag=big&nocache=1")
    # The file system counts with its next commit.
    wait_for(lambda: usage()["cacheBytes"] >= 8 << 20, "the cache's bytes to be counted", 90)
    after = usage()
    assert after["caches"] == 1 and after["reclaimableBytes"] >= after["cacheBytes"]
    out = subprocess.run([BIN / "atoll", "images"], env=atoll.env, capture_output=True, text=True, check=True).stdout
    assert ", 1 caches of builds 8." in out.splitlines()[-1]
    freed = atoll.request("POST", "/v1/images/prune").json()
    assert freed["caches"] == 1 and freed["bytes"] >= 8 << 20
    assert not volumes(atoll)


# ---- files

FILES = [("d", None, {}), ("d/f", b"text\n", {"mode": 0o755}), ("other", b"", {})]


def test_a_directory_is_bound_for_one_command(atoll):
    text = "FROM default\nWORKDIR /src\nRUN echo own > own\nRUN --mount=type=bind,source=d,target=.%s cat f; ls; echo x > new%s\nRUN ls\n"
    # Read-only, as the text says nothing else.
    last = events(build(atoll, text % ("", ""), FILES))
    assert "Read-only file system" in said(last) and last[-1]["message"].endswith("code 1")
    found = built(atoll, text % (",rw", "; ls"), FILES)
    assert said(found) == "text\nf\nf\nnew\nown\n"
    assert not [v for v in volumes(atoll) if not v.startswith(CACHE)]


def test_a_file_is_bound_over_another_one(atoll):
    text = "FROM default\nWORKDIR /app\nRUN echo old > f\n" \
           "RUN --mount=type=bind,source=d/f,target=f --mount=target=/not/there,source=d/f cat f; stat -c %a f; /bin/busybox cp /not/there /copy\n" \
           "RUN cat f; ls -d /not\n"
    found = events(build(atoll, text, FILES))
    assert said(found) == "text\n755\nold\nls: /not: No such file or directory\n"


def test_what_is_bound_counts_for_the_cache(atoll):
    text = "FROM default\nRUN --mount=type=bind,source=d,target=/d cat /d/f\n"
    built(atoll, text, FILES)
    assert cached(built(atoll, text, FILES + [("unrelated", b"1", {})])) == 1
    assert said(built(atoll, text, [("d", None, {}), ("d/f", b"changed\n", {})])) == "changed\n"


def test_files_of_a_stage_are_bound(atoll):
    found = built(atoll, "FROM default AS made\nRUN mkdir /out && echo made > /out/f\nFROM default AS unused\nRUN false\nFROM default\n"
                         "RUN --mount=from=made,source=/out,target=/in cat /in/f\nRUN --mount=from=made,target=/all ls /all/out\n")
    assert said(found) == "made\nf\n"


def test_a_tmpfs_is_empty_and_goes(atoll):
    found = built(atoll, "FROM default\nRUN mkdir /data && echo own > /data/own\n"
                         "RUN --mount=type=tmpfs,target=/data,size=32m ls /data; echo x > /data/x; "
                         "/bin/busybox dd if=/dev/zero of=/data/big bs=1M count=64 2>&1 | /bin/busybox grep -o 'Disk quota exceeded'\n"
                         "RUN ls /data\n")
    assert said(found) == "Disk quota exceeded\nown\n"


# ---- secrets

def test_a_secret_is_there_for_one_command_only(atoll):
    value = base64.b16encode(os.urandom(16))
    text = "FROM default\nRUN --mount=type=secret,id=key --mount=type=secret,id=key,target=/etc/k,mode=444,uid=5 --mount=type=secret,id=word,env=WORD " \
           "stat -Lc '%u %a' /run/secrets/key /etc/k; stat -Lfc %T /run/secrets/key; /bin/busybox md5sum < /run/secrets/key > /sum; echo ${#WORD}\n" \
           "RUN ls -d /run /etc/k; echo [$WORD]; ls -A /dev/shm; true\n"
    reply = with_secrets(atoll, text, {"key": value, "word": b"four"})
    found = events(reply)
    assert found[-1]["type"] == "done", found[-1]
    assert said(found) == "0 400\n5 444\ntmpfs\n4\nls: /run: No such file or directory\nls: /etc/k: No such file or directory\n[]\n"
    # Another value is no reason to run the step again.
    assert cached(events(with_secrets(atoll, text, {"key": b"other", "word": b"w"}))) == 2
    # Neither the service nor the daemon has written it down.
    assert value.decode() not in reply.text
    for top in (atoll.data, atoll.images, atoll.layers.parent):
        found = subprocess.run(["grep", "-rlF", "--devices=skip", "--exclude=*.img", value.decode(), str(top)], capture_output=True, text=True, check=False)
        assert not found.stdout, found.stdout


def test_secrets_that_are_not_there(atoll):
    assert said(built(atoll, "FROM default\nRUN --mount=type=secret,id=none test ! -e /run/secrets/none && echo fine\n")) == "fine\n"
    assert message(build(atoll, "FROM default\n\nRUN --mount=type=secret,id=none,required true\n")).startswith("Dockerfile:3:1: the secret 'none' is required")


@pytest.mark.parametrize("query, body", [
    ("secrets=x", b""), ("secrets=2097153", b""), ("secrets=5", b"[1,2]"), ("secrets=9", b'{"a":"$"}'), ("secrets=10", b'{"a/b":""}'), ("secrets=9000", b"{}")])
def test_malformed_secrets_are_refused(atoll, query, body):
    reply = atoll.request("POST", f"/v1/images/build?{query}", body + (b"" if query == "secrets=9000" else tar_of([("Dockerfile", b"FROM default\n", {})])))
    assert reply.status == 400, reply


def test_the_command_line_gives_secrets(atoll, tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM default\nRUN --mount=type=secret,id=file --mount=type=secret,id=var cat /run/secrets/file /run/secrets/var\n")
    (tmp_path / "value").write_text("from a file\n")

    def cli(*words):
        return subprocess.run([BIN / "atoll", "build", *words, str(tmp_path)], env={**atoll.env, "VALUE": "from a variable\n"},
                              capture_output=True, text=True, check=False)
    out = cli("--no-cache", "--secret", f"id=file,src={tmp_path}/value", "--secret", "id=var,env=VALUE")
    assert out.returncode == 0 and "from a file\nfrom a variable\n" in out.stdout, out
    for wrong, sentence in (("src=x", "needs id=NAME"), ("id=a,src=/not/there", "the secret 'a': read '/not/there'"), ("id=a,env=NOT_SET", "'NOT_SET'"),
                            ("id=a,what=b", "does not know 'what'"), ("id=a/b", "without '/'")):
        out = cli("--secret", wrong)
        assert out.returncode == 1 and sentence in out.stderr, out


# ---- what is refused, and what a command can try

@pytest.mark.parametrize("mount, sentence", [
    ("type=ssh", "RUN --mount=type=ssh is not supported"),
    ("type=cache", "type=cache needs a target"),
    ("target=", "is no value that can be"),
    ("type=other,target=/x", "does not know the type 'other'"),
    ("type=cache,target=/x,required", "type=cache does not know 'required'"),
    ("type=cache,target=/x,uid=99999", "'uid=99999' is no value"),
    ("type=cache,target=/x,mode=999", "'mode=999' is no value"),
    ("type=cache,target=/x,sharing=some", "'sharing=some' is no value"),
    ("type=tmpfs,target=/x,size=much", "'size=much' is no value"),
    ("type=cache,target=/", "'/' cannot be a target"),
    ("type=cache,target=../..", "'/' cannot be a target"),
    ("type=secret,id=a,target=/proc/x", "'/proc/x' cannot be a target"),
    ("type=cache,target=/dev/shm", "'/dev/shm' cannot be a target"),
    ("type=cache,target=/a --mount=type=tmpfs,target=/a/b", "one is inside of the other"),
    ("type=cache,id=x,target=/a --mount=type=cache,id=x,target=/b", "two caches have the id 'x'"),
    ("type=cache,target=/bin/sh", "'/bin/sh' is no directory"),
    ("type=bind,source=nothing,target=/x", "finds no file 'nothing'"),
    ("type=secret,env=A", "needs an id"),
    ("type=secret,id=a,env=1A", "cannot name a variable"),
    (" --mount=".join(f"type=tmpfs,target=/m{i}" for i in range(9)), "more than 8 mounts of directories"),
    (" --mount=".join(f"type=secret,id=s{i}" for i in range(17)), "more than 16 mounts")])
def test_mounts_that_cannot_be(atoll, mount, sentence):
    before = volumes(atoll)
    text = message(build(atoll, f"FROM default\nRUN --mount={mount} true\n"))
    assert text.startswith("Dockerfile:2:1: ") and sentence in text, text
    assert volumes(atoll) == before


def test_links_in_a_target_lead_inside_of_the_box(atoll):
    found = built(atoll, "FROM default\nRUN mkdir /real; /bin/busybox ln -s /real /link\n"
                         "RUN --mount=type=cache,id=links,target=/link/in echo x > /real/in/f; ls /link/in\nRUN ls /real\n")
    assert said(found) == "f\n"
    for target in ("/proc", "/proc/self/fd", "nowhere"):
        text = message(build(atoll, f"FROM default\nRUN /bin/busybox ln -s {target} /link\nRUN --mount=type=cache,target=/link/in true\n"))
        assert text.startswith("Dockerfile:3:1: "), text


def test_a_command_that_moves_its_mounts_harms_itself_alone(atoll):
    text = ("FROM default\nRUN --mount=type=cache,id=moved,target=/a/b/c --mount=type=secret,id=s,target=/t/u/v "
            "/bin/busybox mv /a /z; /bin/busybox ln -s / /a; rm -f /t/u/v; mkdir /t/u/v; touch /t/u/v/w; ls /z/b\nRUN ls /; ls -A /dev/shm\n")
    assert said(events(with_secrets(atoll, text, {"s": b"x"}))).split() == ["c", "a", "bin", "dev", "proc", "t", "tmp", "usr", "workspace", "z"]


@pytest.mark.parametrize("signo", [signal.SIGKILL, None])
def test_a_build_that_ends_early_leaves_its_cache_alone(atoll, signo):
    """Its process is killed, or its client goes away, while a cache, a tmpfs and a directory are mounted."""
    context = [("d", None, {}), ("d/f", b"", {})]
    text = "FROM default\nRUN --mount=type=cache,id=early,target=/c --mount=type=tmpfs,target=/t --mount=type=bind,source=d,target=/d " \
           "echo x > /c/kept; echo begun; while :; do sleep 1; done\n"
    body = tar_of([("Dockerfile", text.encode(), {}), *context])
    with atoll.connect(unix=True) as s:
        s.sendall(b"POST /v1/images/build?nocache=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        seen = b""
        while b"begun\\n" not in seen:
            piece = s.recv(65536)
            assert piece, seen
            seen += piece
        assert len([v for v in volumes(atoll) if ".tmp." in v]) == 2
        if signo:
            box = step_box(atoll)
            os.kill(int(box.split("-")[1]), signo)
    wait_for(lambda: no_work_left(atoll) and not [v for v in volumes(atoll) if ".tmp." in v], "boxes and volumes to be gone", 60)
    assert said(built(atoll, "FROM default\nRUN --mount=type=cache,id=early,sharing=locked,target=/c ls /c\n", query="tag=after&nocache=1")) == "kept\n"


def test_many_builds_with_one_locked_cache(atoll):
    """Each reads a number, waits a little and writes the next one: no two are in the cache at once."""
    text = mounting("locked", "count", "n=$(cat /c/n 2>/dev/null || echo 0); sleep 0.1; echo $((n + 1)) > /c/n # %d")
    builds = [threading.Thread(target=built, args=(atoll, text % i), kwargs={"query": f"tag=count{i}"}) for i in range(4)]
    for one in builds:
        one.start()
    for one in builds:
        one.join()
    assert said(built(atoll, mounting("locked", "count", "cat /c/n"), query="tag=count&nocache=1")) == "4\n"


def test_without_a_pool_nothing_is_kept(tmp_path_factory):
    with image_instance(tmp_path_factory.mktemp("images"), {"ATOLL_POOL": "plain"}) as plain:
        text = "FROM default\nRUN mkdir -p /c && echo own > /c/own\nRUN --mount=type=cache,target=/c --mount=type=tmpfs,target=/t " \
               "--mount=type=bind,source=d/f,target=/f ls /c; cat /f; echo x > /c/x; echo x > /t/x\nRUN ls /c /t\n"
        for _ in range(2):
            found = events(build(plain, text, FILES, "tag=plain&nocache=1"))
            assert said(found).replace("ls: /t: No such file or directory\n", "") == \
                "this daemon has no pool: caches are not kept\nown\ntext\n/c:\nown\n\n/t:\n", found
        assert "needs a pool; use COPY" in message(build(plain, "FROM default\nRUN --mount=source=d,target=/d true\n", FILES))
        assert said(events(with_secrets(plain, "FROM default\nRUN --mount=type=secret,id=a cat /run/secrets/a\n", {"a": b"hidden\n"}))) == "hidden\n"
