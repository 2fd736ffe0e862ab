"""Random changes of model files, from flipped bits to other values at places of the document."""

from __future__ import annotations

import json

from termwise.deploy.document import checksum

JUNK = [None, True, 0, -1, 7, 2**40, 10**400, 0.5, -1e308, "", "x", "\ud800", [], [0], [[1.0]], ["a", 1], {}, {"a": 1}]


def places(value, path=()):
    """Iterate over the places of all values inside a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def flip_bit(content, rng):
    i = int(rng.integers(len(content)))
    return content[:i] + bytes([content[i] ^ (1 << int(rng.integers(8)))]) + content[i + 1 :]


def change_digit(content, rng):
    digits = [i for i, byte in enumerate(content) if 48 <= byte < 58]
    i = int(rng.choice(digits))
    return content[:i] + b"%d" % ((content[i] - 48 + int(rng.integers(1, 10))) % 10) + content[i + 1 :]


def cut(content, rng):
    i, j = sorted(map(int, rng.integers(len(content) + 1, size=2)))
    return content[:i] + content[min(j, i + 40) :]


def truncate(content, rng):
    return content[: int(rng.integers(len(content)))]


def repeat(content, rng):
    i, n = int(rng.integers(len(content))), int(rng.integers(1, 40))
    return content[: i + n] + content[i:]


def insert(content, rng):
    i = int(rng.integers(len(content)))
    return content[:i] + rng.bytes(int(rng.integers(1, 5))) + content[i:]


BYTES = [flip_bit, change_digit, cut, truncate, repeat, insert]


def replace_value(document, rng, inside=()):
    """Change a copy of a document: junk, another value of it, or nothing at a random place; the checksum fits."""
    document = json.loads(json.dumps(document))
    root = document
    for key in inside:
        root = root[key]
    every = list(places(root))
    path = every[int(rng.integers(len(every)))]
    parent = root
    for key in path[:-1]:
        parent = parent[key]
    kind = int(rng.integers(3))
    if kind == 0:
        del parent[path[-1]]
    else:
        other = root
        for key in every[int(rng.integers(len(every)))]:
            other = other[key]
        parent[path[-1]] = JUNK[int(rng.integers(len(JUNK)))] if kind == 1 else json.loads(json.dumps(other))
    return document | {"checksum": checksum(document)}
