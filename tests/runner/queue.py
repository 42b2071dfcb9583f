"""Runs jobs: some at a time from one queue, then those that must be alone, one by one.

One process, one thread. Every child that ends is reaped here, orphans of the tests included (this process is their subreaper), so that the
processor time of the whole run is known at its end. The log of a job is a file; what it says is printed when the job has ended, or as it
comes when there is only one job.
"""

import collections
import contextlib
import ctypes
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import jobs as jobs_of

RESULT = re.compile(rb"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)
SKIPPED = re.compile(rb"^SKIPPED .*\n", re.M)
# Namespaces of its own: when the first process ends, the kernel ends all its descendants.
CONTAINED = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
TICK = 0.05  # seconds between two looks at logs and processes
SHARED_END = 90  # seconds in which the shared daemon of a worker must end

libc = ctypes.CDLL(None)


def say(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


class Running:
    """A job under way, and what came of it."""

    def __init__(self, job, directory, worker, foreground):
        self.job, self.foreground = job, foreground
        self.status, self.ended_at, self.shown = None, None, 0
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "ATOLL_STARTS": f"{directory}/starts", "ATOLL_WAITS": f"{directory}/waits"}
        if worker is not None:
            env.update(ATOLL_SHARED=worker, ATOLL_RUNNER=str(os.getpid()))
        for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL") if job.argv[0] == "make" else ():
            env.pop(name, None)
        if job.idle:  # it is killed without a chance to remove its files, and may have to wait long for the processor
            env.update(TMPDIR=directory, FUZZ_INPUT_SECONDS="300")
        descriptor, name = tempfile.mkstemp(dir=directory)
        self.log = Path(name)
        self.contained = job.idle and os.geteuid() == 0
        self.began_at = time.monotonic()
        # The only job keeps the terminal: Ctrl-C reaches it without help, and a debugger can be used.
        self.process = subprocess.Popen([*CONTAINED, *job.argv] if self.contained else job.argv, env=env, preexec_fn=self.set_up,
                                        stdin=None if foreground else subprocess.DEVNULL, stdout=descriptor, stderr=descriptor,
                                        start_new_session=not foreground)
        os.close(descriptor)

    def set_up(self):
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL if self.job.idle else signal.SIGTERM)
        if not self.job.idle:
            return
        # A machine that refuses one of these runs it with the priority that it has.
        with contextlib.suppress(OSError):
            os.nice(19)
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            # With autogroups the scheduler shares the processors among sessions first: this one wants little.
            Path("/proc/self/autogroup").write_text("19", encoding="ascii")

    def end(self, signo):
        if self.status is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            if self.contained:
                os.kill(self.first_process(), signal.SIGKILL)
            elif not self.foreground:
                os.killpg(self.process.pid, signal.SIGKILL if self.job.idle else signo)
            elif signo != signal.SIGINT:  # which the terminal has sent to it
                os.kill(self.process.pid, signo)

    def first_process(self):
        """The first process of the job's namespaces: the others end with it, and `unshare` waits for that."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        return int(children[0]) if children else pid

    def ended(self, status):
        self.status = self.process.returncode = os.waitstatus_to_exitcode(status)
        self.ended_at = time.monotonic()

    @property
    def seconds(self):
        return self.ended_at - self.began_at

    def show_more(self):
        with self.log.open("rb") as log:
            log.seek(self.shown)
            piece = log.read()
        self.shown += len(piece)
        say(piece)

    def counts(self):
        """(passed, failed, skipped, why the last line of counts is not the whole truth)"""
        found = RESULT.findall(self.log.read_bytes())
        if not found:
            return 0, 1, 0, "ended without a result"
        passed, failed, skipped = (int(n or 0) for n in found[-1])
        if self.status == jobs_of.NO_TESTS and self.job.may_be_empty and not passed + failed + skipped:
            return 0, 0, 0, None
        if self.status and not failed:
            return passed, 1, skipped, f"ended with exit code {self.status if self.status > 0 else 128 - self.status}"
        return passed, failed, skipped, None

    def report(self):
        """Prints a line for a job that passed, everything that another one has said, and returns its counts."""
        passed, failed, skipped, why = self.counts()
        if self.foreground:
            self.show_more()
        else:
            say(f"{'FAIL' if failed else 'ok  '} {self.seconds:6.1f} s  {passed:4d} passed"
                f"{f', {failed} failed' if failed else ''}{f', {skipped} skipped' if skipped else ''}  {self.job.name}\n".encode())
            log = self.log.read_bytes()
            say(log if failed else b"".join(SKIPPED.findall(log)))
        if why:
            say(f"{self.job.name} {why}\n".encode())
        self.log.unlink()
        return passed, failed, skipped


class Run:
    def __init__(self, todo, options, directory):
        self.directory, self.workers = directory, options.workers
        self.foreground = len(todo) == 1
        self.waiting = [job for job in todo if not job.alone and not job.idle]
        self.last = [job for job in todo if job.alone]
        self.idle = [job for job in todo if job.idle]
        self.running = {}  # worker -> Running
        self.done = []  # (job, seconds, counts)
        self.signals = []
        self.daemons = collections.Counter()  # {file: how many it started}
        self.wall, self.ratios = 0.0, {}
        self.waits = []  # what _note_wait of tests/lib/atoll.py wrote, the longest first
        self.began_at = time.monotonic()
        if options.nightly:
            os.environ["ATOLL_NIGHTLY"] = "1"
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # A shell starts background jobs with SIGINT ignored, nohup ignores SIGHUP: they stay ignored.
        for signo in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(signo) != signal.SIG_IGN:
                signal.signal(signo, lambda signo, _: self.signals.append(signo))

    def _shared(self, worker):
        """The directory of the worker's shared daemons; none where a daemon of one's own shows more."""
        if self.foreground:
            return None
        path = Path(self.directory) / f"worker-{worker}"
        path.mkdir(exist_ok=True)
        return str(path)

    def _start(self, worker, job):
        shared = None if job.idle else self._shared(worker)
        self.running[worker] = Running(job, self.directory, shared, self.foreground)

    def _start_more(self):
        for i, job in enumerate(self.idle):
            self._start(f"idle-{i}", job)
        self.idle = []
        for worker in range(self.workers):
            if worker not in self.running and self.waiting:
                self._start(worker, self.waiting.pop(0))
        # lint and fuzz may go on: they have the lowest priority, and take minutes.
        if self.last and all(running.job.idle for running in self.running.values()):
            self._end_shared()
            self._start(0, self.last.pop(0))

    def _reap(self):
        """Takes every child that has ended; True if there may be more."""
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        for running in self.running.values():
            if running.process.pid == pid:
                running.ended(status)
        return pid != 0

    def _end_shared(self):
        """Ends the shared daemons; what they leave behind is a failure."""
        ending = []
        for note in Path(self.directory).glob("worker-*/*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(note.read_text(encoding="ascii")), signal.SIGTERM)
                ending.append(note)
        end = time.monotonic() + SHARED_END
        for note in ending:
            result = note.with_suffix(".result")
            while not result.exists() and time.monotonic() < end:
                self._reap()
                time.sleep(TICK)
            said = result.read_text(encoding="utf-8") if result.exists() else "it does not end"
            if said:
                say(f"FAIL the shared daemon of {note.parent.name}: {said}\n".encode())
                self.done.append((jobs_of.Job("shared", "the shared daemons", []), 0.0, (0, 1, 0)))
            self._await_end(int(note.read_text(encoding="ascii")), end)
            note.unlink()
            result.unlink(missing_ok=True)

    def _await_end(self, pid, end):
        """So that its processor time is counted."""
        while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
            while self._reap():
                pass
            time.sleep(TICK)

    def results(self):
        """Runs everything. Less than all after a signal."""
        for notes in ("starts", "waits"):
            (Path(self.directory) / notes).touch()
        self._start_more()
        while self.running and not self.signals:
            while self._reap():
                pass
            for worker, running in list(self.running.items()):
                if self.foreground:
                    running.show_more()
                if running.status is not None:
                    del self.running[worker]
                    self.done.append((running.job, running.seconds, running.report()))
            self._start_more()
            time.sleep(TICK)
        if not self.signals:
            self._end_shared()
        self._read_notes()
        return self.done

    def _read_notes(self):
        directory = Path(self.directory)
        self.daemons = collections.Counter((directory / "starts").read_text(encoding="utf-8").splitlines())
        lines = (directory / "waits").read_text(encoding="utf-8").splitlines()
        self.waits = sorted(map(json.loads, lines), key=lambda wait: -wait["seconds"])
        with contextlib.suppress(FileNotFoundError):
            self.ratios = json.loads((directory / "ratios").read_text(encoding="utf-8"))
        self.wall = time.monotonic() - self.began_at

    def give_up(self):
        """Ends everything after a signal, and returns the exit code."""
        told = 0
        while any(r.status is None for r in self.running.values()):
            for signo in self.signals[told:]:
                for running in self.running.values():
                    running.end(signal.SIGKILL if told else signal.SIGTERM if signo == signal.SIGHUP else signo)
                told += 1
            if self.foreground:
                for running in self.running.values():
                    running.show_more()
            while self._reap():
                pass
            time.sleep(TICK)
        self._end_shared()
        return 128 + self.signals[0]

    @staticmethod
    def processor_seconds():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime
