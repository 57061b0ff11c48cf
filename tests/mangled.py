"""Honest files with one thing in them changed at random, and the digest made right."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import forgeries

_ODD: list[Any] = [
    None, True, False, 0, -1, 1, 1.5, "", "x", "1", [], {}, [1], [1, 2], [None, None], {"a": 1},
    1e-9, 1e9, 1e12, 1e13, -0.0, "per km", [0.5, 0.5], ["a"], 10**30, 1e308, 5e-324,
]  # fmt: skip


def mangled(
    bases: list[bytes],
    count: int,
    seed: int,
    file_of: Callable[[Any, Any, Any], bytes] = forgeries.file_of,
) -> list[bytes]:
    """Return so many files, each with one thing changed."""
    chance = random.Random(seed)
    made: list[bytes] = []
    while len(made) < count:
        arrays, told, claimed = forgeries.taken_apart(chance.choice(bases))
        kind = chance.random()
        if kind < 0.4:
            told = _said(told, chance)
        elif kind < 0.55:
            claimed = _said(claimed, chance)
        else:
            name = chance.choice(list(arrays))
            arrays = {**arrays, name: _array(arrays[name].copy(), chance)}
        made.append(file_of(arrays, told, claimed))
    return made


def _said(value: Any, chance: random.Random) -> Any:
    """Change one thing that is said, however deep."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        name = chance.choice(list(value))
        kind = chance.random()
        if kind < 0.1:
            return {key: part for key, part in value.items() if key != name}
        if kind < 0.15:
            return {**value, "more": chance.choice(_ODD)}
        return {**value, name: _said(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.5:
        place = chance.randrange(len(value))
        return [*value[:place], _said(value[place], chance), *value[place + 1 :]]
    if isinstance(value, float) and chance.random() < 0.4:
        return value * (1 + chance.choice([1e-15, -1e-15, 1e-9, -1e-6, 0.1, 1e-3]))
    return chance.choice(_ODD)


def _array(array: Any, chance: random.Random) -> Any:
    """Change the shape, the type or a number of an array."""
    kind = chance.random()
    if kind < 0.2:
        return array[:-1].copy()
    if kind < 0.3:
        return array.reshape(-1)
    if kind < 0.35:
        return np.concatenate([array, array])
    if kind < 0.4:
        return np.abs(np.clip(array, -1e9, 1e9)).astype(chance.choice([np.int32, np.float64]))
    if array.size == 0:
        return array
    flat = array.reshape(-1)
    at = chance.randrange(array.size)
    if array.dtype == np.float64:
        old = float(flat[at])
        flat[at] = chance.choice(
            [np.nan, np.inf, -1.0, 0.0, 1e13, old * (1 + 1e-9), old + 1e-7, old + 1e-5, 5e-324]
        )
    elif array.dtype == np.uint64:  # from one output to another
        x = chance.randrange(array.shape[0])
        one, other = (chance.randrange(array.shape[1]) for _ in range(2))
        moved = min(int(array[x, one]), 2 ** chance.randrange(63))
        array[x, one] -= np.uint64(moved)
        array[x, other] += np.uint64(moved + (chance.random() < 0.1))
    else:
        flat[at] = chance.choice([-1, 0, 5, 100_000])
    return array
