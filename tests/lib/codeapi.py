"""Code contexts as tests use them: a box for the tests of a file, contexts for each test, and runs that are easy to look at."""

import itertools

import atoll
import boxapi
import pytest

_numbers = itertools.count(1)


class Run:
    """The events of one run."""

    def __init__(self, events):
        self.events = events

    def of(self, kind):
        return [event for event in self.events if event["type"] == kind]

    def text(self, kind):
        return "".join(event["text"] for event in self.of(kind))

    @property
    def stdout(self):
        return self.text("stdout")

    @property
    def stderr(self):
        return self.text("stderr")

    @property
    def results(self):
        return self.of("result")

    @property
    def result(self):
        """The one result of the run."""
        assert len(self.results) == 1, self
        return self.results[0]

    @property
    def error(self):
        """The error, or None."""
        errors = self.of("error")
        assert len(errors) <= 1, self
        return errors[0] if errors else None

    @property
    def count(self):
        """The execution count of a run that came to its end."""
        (end,) = self.of("execution_complete")
        assert self.events[-1] == end, self
        return end["execution_count"]

    def order(self):
        """[(kind, text)…] with neighbours of one stream joined: how a reader saw it."""
        seen = []
        for event in self.events:
            kind = event["type"]
            if kind in ("stdout", "stderr") and seen and seen[-1][0] == kind:
                seen[-1] = (kind, seen[-1][1] + event["text"])
            elif kind != "execution_complete":
                seen.append((kind, event.get("text", event.get("ename"))))
        return seen

    def __repr__(self):
        return "\n".join(str(event)[:600] for event in self.events[-30:])


class Context:
    """One context. Called with code, it runs it and expects no error."""

    def __init__(self, api, language="python", **options):
        self.api = api
        self.id = api.ok("/api/contexts", language=language, **options)["contextId"]

    def run(self, code, **fields):
        return Run(self.api.events("/api/execute/code", context_id=self.id, code=code, **fields))

    def __call__(self, code, **fields):
        run = self.run(code, **fields)
        assert run.error is None, run
        assert run.count
        return run

    def fails(self, code, ename, **fields):
        """A run that must end in this error; the context must live on."""
        run = self.run(code, **fields)
        assert run.error and run.error["ename"] == ename, run
        assert run.count
        return run.error

    def stream(self, code, **fields):
        """The events while they come."""
        return self.api.stream("/api/execute/code", context_id=self.id, code=code, **fields)

    def delete(self):
        return self.api.call(f"/api/contexts/{self.id}", method="DELETE")


@pytest.fixture(scope="module")
def code_api(daemon):
    """The API of a box that the tests of a file share."""
    name = f"code{next(_numbers)}"
    if atoll.SANITIZED:  # what a sanitizer takes in the agent is the box's too
        assert daemon.request("PUT", atoll.box_path(name), {"limits": {"memory": 1 << 30}}).status in (200, 201)
    yield boxapi.Api(daemon, name)
    daemon.destroy(name)


@pytest.fixture
def python(code_api):
    """A Python context of its own."""
    context = Context(code_api)
    yield context
    context.delete()


def joined(lines):
    return "\n".join(lines)


DEADLINE = atoll.DEADLINE
