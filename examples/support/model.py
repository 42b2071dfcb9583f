"""The adapter for a model: a server of OpenAI's chat completions (OpenAI, vLLM, Ollama, llama.cpp …)."""

import os
import re

import httpx

SECONDS = 120


def complete(messages):
    """The model's answer to a conversation: [{"role": "user", "content": "…"}, …]."""
    key = os.environ.get("MODEL_KEY")
    reply = httpx.post(f"{os.environ['MODEL_URL']}/chat/completions", timeout=SECONDS, headers={"Authorization": f"Bearer {key}"} if key else {},
                       json={"model": os.environ.get("MODEL_NAME") or "default", "messages": messages})
    reply.raise_for_status()
    return reply.json()["choices"][0]["message"]["content"]


def code_of(answer):
    """The code of an answer: its first fenced block, or all of it."""
    found = re.search(r"```\w*\n(.*?)```", answer, re.S)
    return found[1] if found else answer
