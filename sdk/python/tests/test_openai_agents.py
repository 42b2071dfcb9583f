from __future__ import annotations

import asyncio
import importlib.util
import json
from typing import Any

import pytest

from atoll_sandbox import AsyncSandbox
from atoll_sandbox.openai_agents import TOOLS, sandbox_tools


def test_tools_do_what_they_say(box_id: str) -> None:
    tools = {tool.name: tool for tool in TOOLS}

    async def use() -> None:
        async with AsyncSandbox(box_id) as sandbox:
            async def call(name: str, **given: Any) -> str:
                return await tools[name].call(sandbox, json.dumps(given))

            assert await call("write_file", path="sum.py", content="print(6 *)\n") == "wrote sum.py"
            assert "SyntaxError" in await call("run_command", command="python3 sum.py")
            assert await call("edit_file", path="sum.py", old="6 *", replacement="6 * 7") == "changed sum.py"
            assert await call("run_command", command="python3 sum.py") == "42\n\nexit code 0"
            assert await call("edit_file", path="sum.py", old="nope", replacement="") == \
                "Error: the old text occurs 0 times in sum.py; it must occur once."
            assert await call("run_code", code="x = 20\nx + 1", language="python") == "21"
            assert "ZeroDivisionError" in await call("run_code", code="1 / 0", language="python")
            assert (await call("read_file", path="none")).startswith("Error: ")
            assert "sum.py" in await call("list_files", path="/workspace")
            assert "characters left out" in await call("run_command", command="seq 1 20000")
            assert (await tools["run_command"].call(sandbox, "{")).startswith("Error: ")
            assert (await call("run_command")).startswith("Error: ")

    asyncio.run(use())


@pytest.mark.skipif(bool(importlib.util.find_spec("agents")), reason="the package openai-agents is there")
def test_the_missing_package_is_named() -> None:
    with pytest.raises(ModuleNotFoundError, match="openai-agents"):
        sandbox_tools(AsyncSandbox("unused"))
