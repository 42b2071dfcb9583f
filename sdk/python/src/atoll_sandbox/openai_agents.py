"""Tools for agents of OpenAI's Agents SDK (the package `openai-agents`, module `agents`), at work in a sandbox.

    agent = Agent(name="coder", tools=sandbox_tools(sandbox))

`openai-agents` is not a dependency of this package: install it to use this module.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Dict, List

from . import AsyncSandbox, SandboxError

#: Characters of one answer; the middle of a longer one is left out.
ANSWER_MAX = 30_000
SECONDS = 120

_Run = Callable[[AsyncSandbox, Dict[str, Any]], Awaitable[str]]


@dataclass(frozen=True)
class SandboxTool:
    """A tool: what a model is told about it, and what it does."""

    name: str
    description: str
    properties: Dict[str, Dict[str, Any]]
    run: _Run

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of the arguments; all of them are required, as strict schemas have it."""
        return {"type": "object", "properties": self.properties, "required": list(self.properties), "additionalProperties": False}

    async def call(self, sandbox: AsyncSandbox, arguments: str) -> str:
        """Runs the tool with arguments in JSON. An error that the model can do something about is an answer, too."""
        try:
            return _shortened(await self.run(sandbox, json.loads(arguments)))
        except (SandboxError, ValueError, TypeError, KeyError) as error:
            return f"Error: {error} {getattr(error, 'suggestion', None) or ''}".rstrip()


def _shortened(text: str) -> str:
    if len(text) <= ANSWER_MAX:
        return text
    half = ANSWER_MAX // 2
    return f"{text[:half]}\n… {len(text) - ANSWER_MAX} characters left out …\n{text[-half:]}"


async def _run_command(sandbox: AsyncSandbox, given: dict[str, Any]) -> str:
    result = await sandbox.exec(given["command"], timeout=SECONDS)
    parts = [result.stdout, f"stderr:\n{result.stderr}" if result.stderr else "", f"exit code {result.exit_code}"]
    return "\n".join(part for part in parts if part)


async def _run_code(sandbox: AsyncSandbox, given: dict[str, Any]) -> str:
    run = await sandbox.run_code(given["code"], language=given["language"], timeout=SECONDS)
    error = run.error.traceback if run.error else []
    parts = [*run.logs.stdout, *run.logs.stderr, *map(str, run.results), *error]
    return "\n".join(part for part in parts if part) or "done, without output"


async def _read_file(sandbox: AsyncSandbox, given: dict[str, Any]) -> str:
    return await sandbox.read_file(given["path"])


async def _write_file(sandbox: AsyncSandbox, given: dict[str, Any]) -> str:
    await sandbox.write_file(given["path"], given["content"])
    return f"wrote {given['path']}"


async def _edit_file(sandbox: AsyncSandbox, given: dict[str, Any]) -> str:
    content = await sandbox.read_file(given["path"])
    found = content.count(given["old"])
    if found != 1:
        return f"Error: the old text occurs {found} times in {given['path']}; it must occur once."
    await sandbox.write_file(given["path"], content.replace(given["old"], given["replacement"]))
    return f"changed {given['path']}"


async def _list_files(sandbox: AsyncSandbox, given: dict[str, Any]) -> str:
    files = await sandbox.list_files(given["path"])
    return "\n".join(f"{one.name}/" if one.type == "directory" else one.name for one in files) or "empty"


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


TOOLS: List[SandboxTool] = [
    SandboxTool(
        "run_command", "Runs a command in a Linux sandbox with bash. Directory and variables stay for the next command.",
        {"command": _text("The command.")}, _run_command,
    ),
    SandboxTool(
        "run_code", "Runs code in an interpreter that keeps its variables, and answers the value of the last expression, too.",
        {"code": _text("The code."), "language": {"type": "string", "enum": ["python", "javascript", "typescript"]}}, _run_code,
    ),
    SandboxTool("read_file", "Reads a text file.", {"path": _text("Its path.")}, _read_file),
    SandboxTool(
        "write_file", "Writes a text file, with the directories above it.",
        {"path": _text("Its path."), "content": _text("Its whole content.")}, _write_file,
    ),
    SandboxTool(
        "edit_file", "Replaces a text that occurs once in a file.",
        {"path": _text("Its path."), "old": _text("The text to replace."), "replacement": _text("The new text.")}, _edit_file,
    ),
    SandboxTool("list_files", "Lists a directory.", {"path": _text("Its path, for example /workspace.")}, _list_files),
]


def sandbox_tools(sandbox: AsyncSandbox) -> list[Any]:
    """The tools as `agents.FunctionTool`s, for `Agent(tools=…)`."""
    try:
        agents: Any = importlib.import_module("agents")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("sandbox_tools() needs the package openai-agents: install it with pip") from error

    def made(tool: SandboxTool) -> Any:
        async def invoke(_context: Any, arguments: str) -> str:
            return await tool.call(sandbox, arguments)

        return agents.FunctionTool(
            name=tool.name, description=tool.description, params_json_schema=tool.schema, on_invoke_tool=invoke,
        )

    return [made(tool) for tool in TOOLS]
