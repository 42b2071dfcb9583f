"""Values as JSON that every client can read: ASCII, no NaN, no half characters, bounded."""

from __future__ import annotations

import datetime
import json
import math
import sys

from . import limits


class NotPlain(Exception):
    """The value has no faithful JSON form, or is larger than the limits."""


def whole_characters(text: str) -> str:
    """The text with lone surrogates, which no encoding can carry, as U+FFFD; pairs become the character that they mean."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def encode_text(text: str, room: int = limits.FRAME_MAX) -> str:
    """A string as JSON of at most `room` bytes: a longer string is cut, and says so."""
    for most in (limits.TEXT_MAX, max(room // 12 - 64, 0)):
        shown = text if len(text) <= most else f"{text[:most]}\n… [{len(text) - most} more characters]"
        encoded = json.dumps(whole_characters(shown))
        if len(encoded) <= room:
            break
    return encoded


def encode(value) -> str:
    """Any value as JSON; raises NotPlain."""
    return json.dumps(Simplifier().simple(value), allow_nan=False)


class Simplifier:
    """Copies a value into JSON's types: NaN and ±Infinity become None, tuples lists, dates ISO text, numpy's scalars Python's.

    `lenient`: things that JSON does not have become their text, instead of NotPlain. For tables."""

    def __init__(self, lenient: bool = False) -> None:
        self.lenient = lenient
        self.left = limits.JSON_NODES_MAX
        numpy = sys.modules.get("numpy")
        self.numpy_scalar = getattr(numpy, "generic", ())
        self.numpy_array = getattr(numpy, "ndarray", ())

    def simple(self, value, depth: int = 0):
        self.left -= 1
        if self.left < 0 or depth > limits.JSON_DEPTH_MAX:
            raise NotPlain
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            # Python refuses to print an int of more than 4300 digits; no reader could take it as a number either.
            return value if value.bit_length() <= 1024 else self._other(value)
        if kind is float:
            return value if math.isfinite(value) else None
        if kind is str:
            return whole_characters(value)
        if kind in (list, tuple):
            return [self.simple(item, depth + 1) for item in value]
        if kind is dict:
            return {self._key(key): self.simple(item, depth + 1) for key, item in value.items()}
        return self._special(value, depth)

    def _special(self, value, depth: int):
        if isinstance(value, self.numpy_array):
            if value.size > self.left:
                raise NotPlain
            return self.simple(value.tolist(), depth)
        if isinstance(value, self.numpy_scalar):
            item = value.item()
            return self._other(value) if isinstance(item, self.numpy_scalar) else self.simple(item, depth + 1)
        if isinstance(value, (datetime.date, datetime.time)):
            return None if value != value else value.isoformat()  # pandas.NaT is a date that is not itself
        if isinstance(value, (int, float, str)):
            return self.simple(_base(value), depth + 1)
        if isinstance(value, dict):
            return {self._key(key): self.simple(item, depth + 1) for key, item in dict.items(value)}
        if isinstance(value, (list, tuple)):
            return [self.simple(item, depth + 1) for item in value]
        return self._other(value)

    def _key(self, key) -> str:
        if type(key) is str:
            return whole_characters(key)
        if key is None or isinstance(key, (bool, int, float)):
            return json.dumps(key)
        if isinstance(key, str):
            return whole_characters(str.__str__(key))
        return self._other(key)

    def _other(self, value) -> str:
        if not self.lenient:
            raise NotPlain
        if value is getattr(sys.modules.get("pandas"), "NA", self):
            return None
        return whole_characters(str(value))


def _base(value):
    """The value of a subclass of a simple type (an enum, say) without the methods of the subclass."""
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    return str.__str__(value)
