"""In, Out, `_`, `__`, `___`, `_i`, `_ii`, `_iii`, `_1`, `_i1`: the memory of earlier cells, as in a notebook."""

from __future__ import annotations

from . import limits


class History:
    """Lives in a namespace, and keeps its hands off names there that the user took."""

    def __init__(self, space: dict) -> None:
        self.space = space
        self.inputs: list[str] = [""]
        self.outputs: dict[int, object] = {}
        self.latest = ["", "", ""]  # _, __, ___ as we set them
        self.previous = ""
        space.update({"In": self.inputs, "_ih": self.inputs, "Out": self.outputs, "_oh": self.outputs})
        space.update({"_": "", "__": "", "___": "", "_i": "", "_ii": "", "_iii": ""})

    def entered(self, count: int, code: str) -> None:
        """A cell begins."""
        self.inputs.append(code)
        old = count - limits.HISTORY_MAX
        if 0 < old < len(self.inputs):
            self.inputs[old] = ""
            self.space.pop(f"_i{old}", None)
        space = self.space
        space["_iii"], space["_ii"], space["_i"] = space.get("_ii", ""), space.get("_i", ""), self.previous
        space[f"_i{count}"] = self.previous = code

    def answered(self, count: int, value) -> None:
        """A cell has a value."""
        if value is self.outputs:
            return
        names = ("_", "__", "___")
        ours = all(name not in self.space or self.space[name] is self.latest[i] for i, name in enumerate(names))
        self.latest = [value, *self.latest[:2]]
        if ours:
            self.space.update(zip(names, self.latest))
        self.space[f"_{count}"] = value
        self.outputs[count] = value
        while len(self.outputs) > limits.HISTORY_MAX:
            oldest = next(iter(self.outputs))
            del self.outputs[oldest]
            self.space.pop(f"_{oldest}", None)
