"""The files of the console as the daemon serves them: policy, types, caching, and nothing of them needs a token."""

import gzip
import re

import pytest

FIRST_LOAD = 60_000


def get(daemon, path, **headers):
    reply = daemon.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()}, unix=False, token=False)
    return reply, {k.lower(): v for k, v in dict(reply.headers).items()}


def assets(daemon):
    """Every file that the page or one of its scripts names."""
    todo, seen = ["/"], {}
    while todo:
        path = todo.pop()
        reply, head = get(daemon, path)
        assert reply.status == 200, (path, reply)
        seen[path] = (reply.body, head)
        found = re.findall(r'/assets/[\w.-]+', reply.text)
        found += ["/assets/" + name for name in re.findall(r'"\./([\w.-]+\.(?:js|css))"', reply.text)]
        todo += [p for p in dict.fromkeys(found) if p not in seen and p not in todo]
    return seen


@pytest.fixture(scope="module")
def files(daemon):
    found = assets(daemon)
    assert len(found) > 10, list(found)
    return found


def test_the_policy_lets_nothing_in(daemon, files):
    for path, (_, head) in files.items():
        policy = dict(part.split(" ", 1) for part in head["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["script-src"] == policy["connect-src"] == "'self'", path
        assert policy["frame-ancestors"] == policy["object-src"] == policy["base-uri"] == "'none'"
        assert head["x-content-type-options"] == "nosniff" and head["referrer-policy"] == "no-referrer"
    page = files["/"][0].decode()
    assert "<script" in page and not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|javascript:", page), page
    assert files["/"][1]["content-type"] == "text/html; charset=utf-8"


def test_a_form_has_its_own_strong_tag(daemon, files):
    for path, (plain, head) in files.items():
        packed, other = get(daemon, path, Accept_Encoding="gzip")
        assert gzip.decompress(packed.body) == plain and other["content-encoding"] == "gzip" and "content-encoding" not in head
        tags = head["etag"], other["etag"]
        assert tags[0] != tags[1] and all(re.fullmatch(r'"[0-9a-f]{24}(-gzip)?"', t) for t in tags)
        assert head["vary"] == other["vary"] == "Accept-Encoding"
        assert get(daemon, path, If_None_Match=tags[0])[0].status == 304
        assert get(daemon, path, If_None_Match=f'"x", {tags[1]}', Accept_Encoding="gzip")[0].status == 304
        assert get(daemon, path, If_None_Match=tags[1])[0].status == 200
        assert head["cache-control"] == ("no-cache" if path == "/" else "public, max-age=31536000, immutable")


def test_the_first_load_is_small(daemon, files):
    """The page with all that its HTML names, and what those import at once."""
    todo, first = ["/"], set()
    while todo:
        path = todo.pop()
        first.add(path)
        text = files[path][0].decode()
        now = re.findall(r'/assets/[\w.-]+', text) if path == "/" else ["/assets/" + n for n in re.findall(r'(?:from|import)\s*"\./([\w.-]+)"', text)]
        todo += [p for p in now if p not in first]
    assert len(first) > 2
    assert sum(len(get(daemon, p, Accept_Encoding="gzip")[0].body) for p in first) < FIRST_LOAD


def test_a_file_of_another_build_says_what_to_do(daemon):
    gone, _ = get(daemon, "/assets/main-00000000.js")
    assert gone.status == 404 and "load its page again" in gone.json()["message"]
    for path in ("/assets/", "/assets/../index.html", "/assets/%2e%2e/x"):
        assert get(daemon, path)[0].status == 404
