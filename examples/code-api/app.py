"""A code-execution API: app.ts in Python."""

import json
import os
import re

from atoll_sandbox import Sandbox
from web import BadRequest, serve

LIMITS = {"memory": 512 * 2**20, "cpu": 1, "pids": 128}
CODE_MAX = 100_000  # characters
SECONDS = float(os.environ.get("RUN_SECONDS", "30"))  # for each run
LANGUAGES = ("python", "javascript", "typescript")
ROUTE = re.compile(r"/users/([a-z0-9]{1,40})(?:/(run|stream))?")


def run_of(request):
    """What the client asked for, checked."""
    asked = request.json()
    code, language = asked.get("code"), asked.get("language", "python")
    if not isinstance(code, str) or len(code) > CODE_MAX:
        raise BadRequest(f"code is a text of at most {CODE_MAX} characters")
    if language not in LANGUAGES:
        raise BadRequest(f"language is one of {', '.join(LANGUAGES)}")
    return {"code": code, "language": language, "timeout": SECONDS}


def run(sandbox, asked):
    done = json.loads(sandbox.run_code(**asked).to_json())
    return 200, {"stdout": "".join(done["logs"]["stdout"]), "stderr": "".join(done["logs"]["stderr"]), "results": done["results"],
                 "error": done["error"]}


def stream(sandbox, asked):
    with sandbox, sandbox.run_code_stream(**asked) as events:  # leaving it interrupts the code
        for event in events:
            forms = {form: getattr(event.result, form) for form in event.result.formats()} if event.result else {}
            error = {"ename": event.error.name, "evalue": event.error.message} if event.error else {}
            text = {"text": event.text} if event.text is not None else {}
            yield f"data: {json.dumps({'type': event.type, **text, **forms, **error})}\n\n".encode()


def answer(request):
    found = ROUTE.fullmatch(request.path)
    if not found:
        return 404, {"error": "no such route"}
    user, action = found.groups()
    sandbox = Sandbox(f"code-{user}", limits=LIMITS, sleep_after="10m", labels={"user": user})
    if request.method == "POST" and action == "stream":
        return 200, stream(sandbox, run_of(request))
    with sandbox:
        if request.method == "DELETE" and not action:
            sandbox.destroy()
            return 204, b""
        if request.method == "POST" and action == "run":
            return run(sandbox, run_of(request))
    return 404, {"error": "no such route"}


if __name__ == "__main__":
    serve(answer)
