"""Data analysis: app.ts in Python."""

import os
import re
from urllib.parse import urlsplit

from atoll_sandbox import Sandbox, Secrets
from model import code_of, complete
from web import BadRequest, serve

ID = "data-analysis"
DATA = "/workspace/data"  # mount a bucket here and the files outlive the sandbox
ATTEMPTS_MAX = 3
PROMPT = ("You answer questions about CSV files in the current directory with Python: pandas is there, matplotlib too. "
          "Answer with code alone. Print the answer in words; leave tables and figures as values or with display().")


def prepare(sandbox):
    """Makes the working directory, and mounts the bucket there unless it is mounted. The key becomes a secret of the daemon: requests are
    signed on their way out, and the sandbox never sees it."""
    bucket, endpoint = os.environ.get("BUCKET"), os.environ.get("BUCKET_ENDPOINT", "")
    if not bucket:
        sandbox.mkdir(DATA, recursive=True)
    elif not sandbox.exec(f"mountpoint -q {DATA}").success:
        aws = {"accessKeyId": os.environ["BUCKET_KEY"], "region": os.environ.get("BUCKET_REGION", "us-east-1"), "service": "s3"}
        with Secrets() as secrets:
            secrets.put(ID, os.environ["BUCKET_SECRET"], hosts=[urlsplit(endpoint).netloc], aws=aws)
        sandbox.mount_bucket(bucket, DATA, endpoint=endpoint, secret=ID)


def described(sandbox):
    """What the model is told about the files: names, and the first lines of each."""
    return sandbox.exec('for f in *.csv; do echo "$f:"; head -n 4 "$f" | cut -c 1-300; done', cwd=DATA).stdout


def ask(sandbox, question):
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": f"{described(sandbox)}\n{question}"}]
    context = sandbox.create_code_context(cwd=DATA)
    try:
        for attempts in range(1, ATTEMPTS_MAX + 1):
            reply = complete(messages)
            run = sandbox.run_code(code_of(reply), context=context)
            if run.success:
                break
            told = "\n".join(run.error.traceback)
            messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": f"That failed:\n{told}\nRepair it."}]
    finally:
        sandbox.delete_code_context(context)
    return {"answer": "".join(run.logs.stdout).strip(), "tables": [one.html for one in run.results if one.html],
            "charts": [one.png for one in run.results if one.png], "code": run.code, "attempts": attempts,
            "error": None if run.success else str(run.error)}


def answer(request):
    file = re.fullmatch(r"/files/([\w-]+\.csv)", request.path)
    with Sandbox(ID) as sandbox:
        prepare(sandbox)
        if request.method == "PUT" and file:
            sandbox.write_file(f"{DATA}/{file[1]}", request.body)
            return 204, b""
        if (request.method, request.path) == ("GET", "/files"):
            return 200, {"files": sorted(one.name for one in sandbox.list_files(DATA) if one.name.endswith(".csv"))}
        if (request.method, request.path) == ("POST", "/ask"):
            question = request.json().get("question")
            if not isinstance(question, str):
                raise BadRequest("question is a text")
            return 200, ask(sandbox, question)
    return 404, {"error": "no such route"}


if __name__ == "__main__":
    serve(answer)
