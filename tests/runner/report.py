"""The end of a run: times for the next one, suites over their budget, the line of counts."""

import json
import os

from . import jobs as jobs_of

# Seconds of all files of a suite together, as tests/run counts them with four workers on two cores.
BUDGET = {"unit": 200, "integration": 2850, "security": 410, "compat": 430, "browser": 590, "sdk": 1080, "mcp": 35, "wrangler": 300,
          "docs": 140, "host": 300, "lint": 600, "fuzz": 300, "ratios": 20}
SLOWER = 3  # times the recorded ratio are worth a line
WAITS = 40  # of the longest waits are kept
DAEMONS = 90  # are started by a run of every suite at most


def _write(path, content):
    """Two runs in one checkout may write at the same time."""
    path.parent.mkdir(exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    new.rename(path)


def keep(done, run, options):
    """Writes the files of durations."""
    seconds = {job.name: round(took, 1) for job, took, _ in done}
    now = {"wall": round(run.wall, 1), "processor": round(run.processor_seconds(), 1), "ratios": run.ratios,
           "seconds": dict(sorted(seconds.items()))}
    if options.record:
        _write(jobs_of.DURATIONS, now)
    if options.whole_files:
        path = jobs_of.BUILD / "durations.json"
        if not options.whole:
            now["seconds"] = dict(sorted((jobs_of.known(path=path) | seconds).items()))
        _write(path, now | {"daemons": dict(run.daemons.most_common()), "waits": run.waits[:WAITS]})


def _over_budget(done):
    for suite, budget in BUDGET.items():
        took = sum(s for job, s, _ in done if job.suite == suite)
        if took > budget:
            yield f"over its budget: {suite} took {took:.0f} s, {budget} are meant (tests/runner/report.py)"


def _slower(run):
    recorded = jobs_of.known("ratios")
    for row, ratio in run.ratios.items():
        if ratio > SLOWER * recorded.get(row, ratio):
            yield f"slower: {row} is {ratio:.2f} x, {recorded[row]:.2f} x when tests/durations.json was recorded"


def _many_daemons(run):
    count = sum(run.daemons.values())
    if count > DAEMONS:
        most = ", ".join(f"{file} {n}" for file, n in run.daemons.most_common(5))
        yield f"too many daemons: {count} started, {DAEMONS} are meant; the most by {most}"


def say(done, run):
    """Prints the last lines and returns the exit code."""
    print(f"\n{run.wall / 60:.1f} minutes, {run.processor_seconds() / 60:.1f} minutes of processor time, {sum(run.daemons.values())} daemons started")
    if run.waits:
        print("the longest wait: {seconds} s for {what}, in {test}".format(**run.waits[0]))
        print(f"waits of 2 s and more: {len(run.waits)} (build/durations.json has the longest)")
    for line in (*_over_budget(done), *_slower(run), *_many_daemons(run)):
        print(line)
    passed, failed, skipped = (sum(counts[i] for _, _, counts in done) for i in range(3))
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 0 if failed == 0 and passed > 0 else 1
