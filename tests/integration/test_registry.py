"""`npm install` and `npm ci` in a box from a real registry (verdaccio), through the gate."""

import base64
import hashlib
import io
import json
import pathlib
import subprocess
import tarfile

import npmdir
import pytest
from gatelib import WEB2
from netfix import log_of, put, sh

HERE = pathlib.Path(__file__).resolve().parent / "registry"
PROGRAMS = ("node", "npm")
URL = "http://two.example:4873/"


@pytest.fixture(scope="module")
def registry(world):
    """verdaccio at two.example:4873, without a way to any other registry; everybody may publish."""
    assert npmdir.installed(HERE)
    config = world.file("verdaccio.yaml", f"""
storage: {world.tmp}/verdaccio
auth: {{htpasswd: {{file: {world.tmp}/htpasswd, max_users: -1}}}}
packages: {{'**': {{access: $all, publish: $all}}}}
listen: {WEB2}:4873
log: {{type: file, path: {world.tmp}/verdaccio.log, level: warn}}
""")
    world.start(world.servers, "node", HERE / "node_modules/verdaccio/bin/verdaccio", "--config", config, cwd=str(world.tmp),
                stdout=(world.tmp / "verdaccio.out").open("w"), stderr=subprocess.STDOUT)
    world.wait(lambda: world.connects(world.servers, WEB2, 4873), "verdaccio", 60)


def package(name, version, **more):
    """(package.json, tarball)"""
    about = {"name": name, "version": version, "bin": {name: "run.js"}, **more}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for path, text in (("package.json", json.dumps(about)), ("run.js", f"#!/usr/bin/env node\nconsole.log('{name} {version} works')\n")):
            member = tarfile.TarInfo("package/" + path)
            member.size, member.mode = len(text), 0o755
            tar.addfile(member, io.BytesIO(text.encode()))
    return about, out.getvalue()


def publish(world, name, version, **more):
    """As `npm publish` does."""
    about, tarball = package(name, version, **more)
    file = f"{name}-{version}.tgz"
    about["dist"] = {"tarball": f"{URL}{name}/-/{file}", "shasum": hashlib.sha1(tarball).hexdigest(),
                     "integrity": "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()}
    document = {"_id": name, "name": name, "dist-tags": {"latest": version}, "versions": {version: about}, "access": None,
                "_attachments": {file: {"content_type": "application/octet-stream", "data": base64.b64encode(tarball).decode(), "length": len(tarball)}}}
    body = world.file(f"{name}.json", json.dumps(document))
    out = subprocess.run(world.servers.argv("curl", "-sS", "-X", "PUT", "-H", "Content-Type: application/json", "--data-binary", f"@{body}",
                                            f"http://{WEB2}:4873/{name}"), capture_output=True, text=True, check=True, timeout=60)
    assert "error" not in out.stdout, out.stdout


def test_npm_install_and_ci(net, world, registry):
    publish(world, "coral", "2.1.0")
    publish(world, "reef", "0.3.0", dependencies={"coral": "^2.0.0"})
    put(net, "r-npm", mode="list", allow=["two.example:4873"])
    npm = f"npm_config_registry={URL} npm_config_audit=false npm_config_fund=false npm"
    sh(net, "r-npm", "mkdir -p /workspace/app && cd /workspace/app && npm init -y")
    code, out = sh(net, "r-npm", f"cd /workspace/app && {npm} install reef 2>&1 && npx reef && npx coral", 180)
    assert code == 0 and out.endswith("reef 0.3.0 works\ncoral 2.1.0 works\n"), out
    code, out = sh(net, "r-npm", f"cd /workspace/app && rm -rf node_modules ~/.npm && {npm} ci 2>&1 && npx reef", 180)
    assert code == 0 and out.endswith("reef 0.3.0 works\n"), out
    log_of(net, "r-npm", name="two.example", port=4873, decision="allow", rule="two.example:4873")
    # A registry that no rule names is not there.
    code, out = sh(net, "r-npm", "cd /workspace/app && npm_config_fetch_retries=0 npm view reef --registry http://other.example:4873/ 2>&1", 180)
    assert code != 0 and "ENOTFOUND" in out, out
