"""A blind mutator: takes seeds and spoils them, by bytes, by words with a meaning, and by the shape of their JSON.

Repeatable: the same seed of the generator gives the same inputs.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

LONGEST = 20_000
"""An input does not grow beyond this: slow inputs find little."""
ODD_VALUES: list[Any] = [
    None,
    True,
    "",
    "x",
    -1,
    0,
    2**63,
    1.5,
    [],
    {},
    [None],
    {"": None},
    "\ud83d",
    "\x00",
]
ODD_VALUES += [[[]], {"type": "text"}, {"error": {}}, "é", [{}], 10**30, {"index": -1}]


class Mutator:
    """Endless inputs out of seeds."""

    def __init__(self, seeds: list[bytes], words: tuple[bytes, ...], seed: int) -> None:
        self._seeds = [seed for seed in seeds if len(seed) <= LONGEST] or [b""]
        self._words = words or (b"\0",)
        self._random = random.Random(seed)

    def inputs(self) -> Iterator[bytes]:
        """Spoil one seed after another, once to five times."""
        while True:
            data = self._random.choice(self._seeds)
            for _ in range(self._random.choice((1, 1, 1, 2, 3, 5))):
                data = self._random.choice(WAYS)(self, data)
            yield data[:LONGEST]

    def _place(self, data: bytes) -> int:
        return self._random.randint(0, len(data))

    def _range(self, data: bytes) -> tuple[int, int]:
        start = self._place(data)
        return start, min(len(data), start + self._random.choice((1, 2, 4, 16, 64, 256)))

    def flip(self, data: bytes) -> bytes:
        """Change a bit or a byte."""
        if not data:
            return data
        at = self._random.randrange(len(data))
        new_byte = self._random.choice(
            (data[at] ^ (1 << self._random.randrange(8)), self._random.randrange(256))
        )
        return data[:at] + bytes([new_byte]) + data[at + 1 :]

    def delete(self, data: bytes) -> bytes:
        start, stop = self._range(data)
        return data[:start] + data[stop:]

    def cut(self, data: bytes) -> bytes:
        return data[: self._place(data)]

    def double(self, data: bytes) -> bytes:
        start, stop = self._range(data)
        return data[:stop] + data[start:stop] * self._random.choice((1, 2, 30)) + data[stop:]

    def put_word(self, data: bytes) -> bytes:
        at, word = self._place(data), self._random.choice(self._words)
        return data[:at] + word + data[at:]

    def put_over(self, data: bytes) -> bytes:
        """Overwrite some bytes with a word."""
        at, word = self._place(data), self._random.choice(self._words)
        return data[:at] + word + data[at + len(word) :]

    def splice(self, data: bytes) -> bytes:
        """Go on with another seed."""
        other = self._random.choice(self._seeds)
        return data[: self._place(data)] + other[self._place(other) :]

    def swap_events(self, data: bytes) -> bytes:
        """Lose, double or swap events (or lines, where there are none)."""
        gap = b"\n\n" if b"\n\n" in data else b"\n"
        pieces = data.split(gap)
        if len(pieces) < 2:
            return data
        first, two = self._random.randrange(len(pieces)), self._random.randrange(len(pieces))
        choice = self._random.randrange(3)
        if choice == 0:
            pieces[first], pieces[two] = pieces[two], pieces[first]
        elif choice == 1:
            pieces.insert(first, pieces[two])
        else:
            del pieces[first]
        return gap.join(pieces)

    def odd_value(self, data: bytes) -> bytes:
        """Change the JSON of one event, or of the whole, at one place of its tree."""
        lines = data.split(b"\n")
        places = [at for at, line in enumerate(lines) if line.startswith(b"data: {")]
        if places:
            at = self._random.choice(places)
            lines[at] = b"data: " + self._spoilt(lines[at][6:])
            return b"\n".join(lines)
        return self._spoilt(data)

    def _spoilt(self, text: bytes) -> bytes:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        holder = [value]
        self._spoil(holder)
        return json.dumps(holder[0]).encode()

    def _spoil(self, holder: Any) -> None:
        """Walk down a random path, then change the value there."""
        while True:
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            key = self._random.choice(keys)
            inner = holder[key]
            if not (isinstance(inner, dict | list) and inner) or self._random.random() < 0.15:
                break
            holder = inner
        choice = self._random.randrange(4)
        if choice == 0 and len(keys) > 1:
            del holder[key]
        elif choice == 1 and isinstance(holder, dict):
            holder[self._random.choice(("type", "id", "index", "error", "lc", "content"))] = inner
        else:
            holder[key] = self._random.choice(ODD_VALUES)


Way = Callable[[Mutator, bytes], bytes]
WAYS: list[Way] = [
    Mutator.flip,
    Mutator.delete,
    Mutator.cut,
    Mutator.double,
    Mutator.put_word,
    Mutator.put_over,
    Mutator.splice,
    Mutator.swap_events,
    Mutator.odd_value,
    Mutator.odd_value,
    Mutator.odd_value,
]
