"""Generate, run, repair: app.ts in Python."""

import re
import uuid

from atoll_sandbox import Sandbox
from model import code_of, complete
from web import BadRequest, serve

ROUNDS_MAX = 5
TEST_SECONDS = 60
FAILURE_CHARACTERS = 2000  # the end of it, where Python says what is wrong


def failure_of(sandbox, file, code):
    """What the tests say about a program; None when they pass."""
    sandbox.write_file(f"/workspace/{file}", code)
    result = sandbox.exec("python3 -m unittest -q test_it.py", timeout=TEST_SECONDS)
    return None if result.success else result.stderr[-FAILURE_CHARACTERS:]


def solve(sandbox, task, file, tests):
    messages = [{"role": "system", "content": "You write one Python file. Answer with its code alone."},
                {"role": "user", "content": f"{task}\nThe file is {file}. These tests must pass:\n{tests}"}]
    rounds = []
    sandbox.write_file("/workspace/test_it.py", tests)
    while len(rounds) < ROUNDS_MAX:
        answer = complete(messages)
        failure = failure_of(sandbox, file, code_of(answer))
        rounds.append({"code": code_of(answer), "failure": failure})
        if failure is None:
            break
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": f"The tests fail:\n{failure}\nRepair it."}]
    return rounds


def answer(request):
    if (request.method, request.path) != ("POST", "/solve"):
        return 404, {"error": "no such route"}
    asked = request.json()
    task, file, tests = asked.get("task"), asked.get("file"), asked.get("tests")
    if not (isinstance(task, str) and isinstance(tests, str) and re.fullmatch(r"\w+\.py", str(file))):
        raise BadRequest("task, file (NAME.py) and tests are texts")
    with Sandbox(f"ai-{uuid.uuid4()}", destroy_on_exit=True) as sandbox:
        rounds = solve(sandbox, task, file, tests)
    return 200, {"solved": rounds[-1]["failure"] is None, "code": rounds[-1]["code"], "rounds": rounds}


if __name__ == "__main__":
    serve(answer)
