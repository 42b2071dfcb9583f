"""The text of a value, as notebooks show it: containers longer than a line one item a line, at most 1000 items,
classes and functions by their names. Everything else is its own repr()."""

from __future__ import annotations

import collections
import inspect
import types

from . import limits

_BRACKETS = {list: "[]", tuple: "()", set: "{}", frozenset: ("frozenset({", "})"), collections.deque: ("deque([", "])")}
_MAPPINGS = {dict: ("{", "}"), collections.OrderedDict: ("OrderedDict({", "})"), collections.Counter: ("Counter({", "})")}
_EMPTY = {set: "set()", frozenset: "frozenset()", collections.deque: "deque([])", collections.OrderedDict: "OrderedDict()",
          collections.Counter: "Counter()"}


def pretty(value) -> str:
    """The text of any value. An exception of the value's own __repr__ passes through."""
    kind = type(value)
    if kind in (int, float, str, bool, type(None), bytes):
        return repr(value)
    return _Pretty().text(value, 0)


class _Pretty:
    def __init__(self) -> None:
        self.inside: list[int] = []  # ids of the containers around

    def text(self, value, indent: int) -> str:
        kind = type(value)
        if kind in _BRACKETS or kind in _MAPPINGS or kind is collections.defaultdict:
            return self._container(value, kind, indent)
        if isinstance(value, type) and type(value).__repr__ is type.__repr__:
            return _type_name(value)
        if kind is types.FunctionType:  # noqa: E721
            return _function_name(value)
        return repr(value)

    def _container(self, value, kind: type, indent: int) -> str:
        if not value:
            return _EMPTY.get(kind) or repr(value)
        if id(value) in self.inside:
            return f"<Recursion on {kind.__name__} with id={id(value)}>"
        self.inside.append(id(value))
        try:
            opening, closing, mapping = _frame_of(value, kind)
            column = indent + len(opening)
            items = self._pairs(value, column) if mapping else self._items(value, column)
        finally:
            self.inside.pop()
        if len(value) > limits.PRETTY_ITEMS_MAX:
            items.append("...")
        if kind is tuple and len(items) == 1:
            closing = ",)"
        flat = opening + ", ".join(items) + closing
        if indent + len(flat) <= limits.PRETTY_WIDTH and "\n" not in flat:
            return flat
        return opening + (",\n" + " " * column).join(items) + closing

    def _items(self, value, column: int) -> list[str]:
        if type(value) in (set, frozenset):
            value = _sorted(value)
        return [self.text(item, column) for _, item in zip(range(limits.PRETTY_ITEMS_MAX), value)]

    def _pairs(self, value, column: int) -> list[str]:
        items = []
        pairs = value.most_common() if type(value) is collections.Counter else value.items()
        for _, (key, item) in zip(range(limits.PRETTY_ITEMS_MAX), pairs):
            head = self.text(key, column) + ": "
            items.append(head + self.text(item, column + len(head)))
        return items


def _frame_of(value, kind: type) -> tuple[str, str, bool]:
    if kind in _MAPPINGS:
        return *_MAPPINGS[kind], True
    if kind is collections.defaultdict:
        return f"defaultdict({pretty(value.default_factory)}, {{", "})", True
    return *_BRACKETS[kind], False


def _sorted(values):
    if len(values) > limits.PRETTY_ITEMS_MAX:
        return values
    try:
        return sorted(values)
    except Exception:  # noqa: BLE001 (no order among them)
        return values


def _type_name(value: type) -> str:
    module, name = value.__module__, value.__qualname__
    return name if module in (None, "builtins", "exceptions") else f"{module}.{name}"


def _function_name(value) -> str:
    try:
        signature = str(inspect.signature(value))
    except (ValueError, TypeError):
        signature = "(...)"
    return f"<function {value.__module__}.{value.__qualname__}{signature}>"
