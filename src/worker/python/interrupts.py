"""SIGINT: raises KeyboardInterrupt in user code, and nowhere else.

The handler runs in the main thread between two instructions. It raises only while `armed`, that is from the first
instruction of a cell to its last. An interrupt that comes earlier, while the request is still being read, waits for that first instruction.
Code of ours that must not be torn (a frame on the socket) stands between `enter` and `leave`; an interrupt that comes meanwhile is
kept in `pending` and comes again after it. Other signals that user code has handlers for are blocked there, and between runs.
"""

from __future__ import annotations

import _signal  # the C part: the module signal turns every number into an enum and back
import _thread
import sys

armed = False
coming = False
pending = False
held: list[int] = []
busy = _thread.allocate_lock()

_OTHERS = (
    _signal.SIGHUP, _signal.SIGALRM, _signal.SIGTERM, _signal.SIGUSR1, _signal.SIGUSR2, _signal.SIGCHLD, _signal.SIGVTALRM, _signal.SIGPROF,
    _signal.SIGQUIT, _signal.SIGWINCH,
)  # fmt: skip

# Cancels the running task of the event loop while it waits; else None.
cancel_task = None


def handler(signum: int, frame) -> None:
    """The handler of SIGINT of this process."""
    global pending
    del signum
    if not armed:
        pending = coming
        return
    if busy.locked():
        pending = True
    elif cancel_task and frame and frame.f_code.co_filename.endswith("/selectors.py"):
        # The event loop sleeps: an exception here would leave the task behind, half done and still scheduled.
        cancel_task()
    else:
        raise KeyboardInterrupt


def expect() -> None:
    """A run is being received: from here on an interrupt is meant for it."""
    global coming, pending
    coming, pending = True, False


def arm() -> None:
    """User code follows. To be called where KeyboardInterrupt is caught."""
    global armed, coming, pending
    armed, coming = True, False
    if held:
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, held)
    if pending:
        pending = False
        raise KeyboardInterrupt


def hold_others() -> None:
    """User code is over, or pauses. Handlers that it left for other signals wait: in our own code they could raise."""
    global held
    held = [number for number in _OTHERS if callable(_signal.getsignal(number))]
    if held:
        _signal.pthread_sigmask(_signal.SIG_BLOCK, held)


def free_others() -> None:
    """User code goes on: an interrupt that waited comes now."""
    if armed and held:
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, held)


def enter() -> None:
    """From here to `leave` nothing that a signal handler raises can hit. In any thread, one at a time."""
    hold_others()
    busy.acquire()


def leave() -> None:
    """Lets an interrupt through that came meanwhile."""
    global pending
    busy.release()
    free_others()
    if pending:
        pending = False
        _thread.interrupt_main()


def unraisable(info) -> None:
    """sys.unraisablehook: an interrupt that hit a destructor is not lost but tried again."""
    if info.exc_type is KeyboardInterrupt:
        _thread.interrupt_main()
    else:
        _previous_unraisable(info)


def install() -> None:
    """Takes SIGINT, also back from user code that took it."""
    if _signal.getsignal(_signal.SIGINT) is not handler:
        _signal.signal(_signal.SIGINT, handler)


def install_unraisable() -> None:
    """Once per process."""
    global _previous_unraisable
    _previous_unraisable = sys.__unraisablehook__
    sys.unraisablehook = unraisable


_previous_unraisable = None
