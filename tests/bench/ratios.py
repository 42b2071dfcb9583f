#!/usr/bin/python3
"""Ten rows of `make bench` in a short run: medians as ratios to fork+exec+wait of /bin/true, or to bwrap, in the same run.

tests/run starts it as the suite `ratios`, beside lint and fuzz: `make test BESIDE="lint fuzz ratios"`. No number fails it. It writes
{row: ratio} as JSON into the file that is its argument; tests/run keeps them beside the durations and names rows that became slow.
"""

import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lib")]
import atoll  # noqa: E402
from common import driver, percentile  # noqa: E402
from rows_boxes import peers  # noqa: E402
from rows_code import Client  # noqa: E402
from rows_runtime import Box  # noqa: E402

SAMPLES = 60
REQUESTS = {
    "builtin in a warm session": ("repeat", "/execute", '{"command":":"}', '"exitCode":0'),
    "/bin/true in a warm session": ("repeat", "/execute", '{"command":"/bin/true"}', '"exitCode":0'),
    "stream of echo: first byte of output": ("first", "/execute/stream", '{"command":"echo hi"}', '"stdout"'),
    "write 1 KB": ("repeat", "/write", '{"path":"/workspace/k","content":"%s"}' % ("k" * 1024), ""),
    "read 1 KB": ("repeat", "/read", '{"path":"/workspace/k"}', "kkkk"),
}


def median(samples):
    return percentile(samples, 50)


def boxes(d):
    """A new box and its end beside bwrap, where it is installed."""
    with tempfile.TemporaryDirectory() as where:
        bwrap = peers(Path(where)).get("bwrap")
        r = driver("cold", d.port, d.token, SAMPLES, 0, *(["--", *bwrap] if bwrap else []), hide_v2=True)
    if not bwrap:
        return {}
    return {"new box and /bin/true, to bwrap": median(r["atoll"]) / median(r["peer0"]), "destroy, to bwrap": median(r["atoll destroy"]) / median(r["peer0"])}


def requests(d):
    r = driver("warm", d.port, d.token, SAMPLES * 4, "--", "/bin/true")
    base = median(r["peer0"])
    found = {"/bin/true without a session": median(r["atoll"]) / base}
    with Box(None, d, "ratios") as box:
        for row, (mode, path, body, text) in REQUESTS.items():
            found[row] = median(box.ask(mode, SAMPLES * 4, "POST", path, body, text)["us"]) / base
        found |= {row: us / base for row, us in contexts(Client(d), box.id).items()}
    return found


def contexts(client, box):
    made = [client.context(box) for _ in range(9)]
    times = [client.warm(box, made[0][1]) for _ in range(SAMPLES)]
    return {"new Python context with numpy and pandas": median([us for us, _ in made]), "1+1 in a Python context": median(times)}


def main():
    with atoll.Instance() as d:
        d.port = d.address.rsplit(":", 1)[1]
        d.await_zygote()
        ratios = boxes(d) | requests(d)
    for row, ratio in ratios.items():
        print(f"{row:44} {ratio:8.2f} x")
    Path(sys.argv[1]).write_text(json.dumps({row: round(ratio, 3) for row, ratio in ratios.items()}), encoding="utf-8")
    print(f"{len(ratios)} passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
