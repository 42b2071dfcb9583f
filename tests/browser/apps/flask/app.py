"""A Flask app with a form, a session and a streamed answer."""

import time

from flask import Flask, Response, redirect, request, session

app = Flask(__name__)
app.secret_key = "not a secret here"


@app.get("/")
def form():
    return f"""<!doctype html><title>Flask in a box</title><h1>Hello {session.get('name', 'stranger')}</h1>
    <form method="post" action="/name"><input name="name"><button>Go</button></form>"""


@app.post("/name")
def name():
    session["name"] = request.form["name"]
    return redirect("/")


@app.get("/stream")
def stream():
    def lines():
        for i in range(3):
            yield f"line {i}\n"
            time.sleep(0.05)

    return Response(lines(), mimetype="text/plain")
