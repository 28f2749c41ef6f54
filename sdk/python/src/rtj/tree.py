"""The NumPy form of a state: nested dicts and lists, seen as named leaves.

A state is a dict of components. Below a component there may be dicts with string keys, lists, tuples, and as
leaves: NumPy arrays and scalars, bytes, JSON values, random generators (NumPy's and Python's), and objects with
``state_dict`` and ``load_state_dict``. NumPy itself is imported only where the state holds something of it.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

from rtj.errors import StateMismatchError, UnsupportedValueError
from rtj.objects import LiveItem

JSON = "json"

# Leaves by their path below the component: names joined by slashes, escaped as in a JSON pointer.
Leaves = dict[str, Any]


def leaves(component: str, value: Any) -> Leaves:
    """Return the leaves of a component. Raises UnsupportedValueError that names the path."""
    found: Leaves = {}
    _descend(value, "", component, found)
    return found


def check(component: str, value: Any) -> None:
    """Raise UnsupportedValueError if something of a component cannot be stored; copies nothing."""
    for name, leaf in leaves(component, value).items():
        if shape_of(leaf)[0] is not None:
            _check_dtype(leaf, f"{component}/{name}")


def item(component: str, name: str, leaf: Any) -> LiveItem:
    """Return how to store a leaf. Arrays are copied when the item is; JSON is encoded now."""
    where = f"{component}/{name}"
    numpy = _numpy()
    if numpy is not None and isinstance(leaf, (numpy.ndarray, numpy.generic)):
        _check_dtype(leaf, where)
        array = numpy.asarray(leaf)
        if array.ndim == 0 or not array.flags.c_contiguous:
            # A contiguous copy now: of a value this small, or of a view, later ones would cost more.
            array = numpy.array(array, order="C", ndmin=1).reshape(array.shape)
        flat = memoryview(array.reshape(-1).view(numpy.uint8)) if array.size else memoryview(b"")
        return LiveItem(component, name, array.nbytes, _copier(flat), array.dtype.str, tuple(array.shape))
    if isinstance(leaf, (bytes, bytearray)):
        return LiveItem(component, name, len(leaf), _copier(memoryview(bytes(leaf))))
    encoded = _encode(_json_form(leaf), where)
    return LiveItem(component, name, len(encoded), _copier(memoryview(encoded)), encoding=JSON)


def destination(leaf: Any) -> memoryview | None:
    """Return the leaf's own memory, to be read into, or None if its value must be replaced instead."""
    numpy = _numpy()
    if numpy is None or not isinstance(leaf, numpy.ndarray):
        return None
    if not leaf.flags.c_contiguous or not leaf.flags.writeable or leaf.size == 0:
        return None
    return memoryview(leaf.reshape(-1).view(numpy.uint8))


def shape_of(leaf: Any) -> tuple[str | None, tuple[int, ...] | None]:
    """Return dtype and shape of an array or NumPy scalar, (None, None) of anything else."""
    numpy = _numpy()
    if numpy is not None and isinstance(leaf, (numpy.ndarray, numpy.generic)):
        return leaf.dtype.str, tuple(leaf.shape)
    return None, None


def value(leaf: Any, data: bytes | bytearray, encoding: str | None) -> Any:
    """Return what a leaf becomes with the bytes that were stored. Raises ValueError if they do not fit."""
    numpy = _numpy()
    if numpy is not None and isinstance(leaf, numpy.ndarray):
        stored = numpy.frombuffer(data, leaf.dtype).reshape(leaf.shape)
        if leaf.flags.writeable:
            leaf[...] = stored
            return leaf
        return stored.copy()
    if numpy is not None and isinstance(leaf, numpy.generic):
        return numpy.frombuffer(data, leaf.dtype)[0]
    if encoding != JSON:
        return bytearray(data) if isinstance(leaf, bytearray) else bytes(data)
    return _from_json(leaf, json.loads(data, object_hook=_arrays))


def rebuild(value: Any, found: Mapping[str, Any]) -> Any:
    """Put the leaves in their places: in place where the container allows it. Returns the value."""
    return _rebuild(value, "", found)


def _descend(value: Any, path: str, component: str, found: Leaves) -> None:
    if isinstance(value, dict):
        for key, below in value.items():
            if not isinstance(key, str):
                raise UnsupportedValueError(
                    f"state {component}/{path}: the key {key!r} is {type(key).__name__}, want str"
                )
            _descend(below, _join(path, key), component, found)
    elif isinstance(value, (list, tuple)) and not _is_json(value):
        for number, below in enumerate(value):
            _descend(below, _join(path, str(number)), component, found)
    elif _is_stateful(value):
        _descend(value.state_dict(), path, component, found)
    elif _is_leaf(value):
        found[path] = value
    else:
        raise UnsupportedValueError(
            f"state {component}/{path}: {type(value).__module__}.{type(value).__qualname__} cannot be stored; "
            + _instead(value)
        )


def _rebuild(value: Any, path: str, found: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        for key in value:
            value[key] = _rebuild(value[key], _join(path, key), found)
        return value
    if isinstance(value, list) and not _is_json(value):
        value[:] = [_rebuild(below, _join(path, str(n)), found) for n, below in enumerate(value)]
        return value
    if isinstance(value, tuple) and not _is_json(value):
        return tuple(_rebuild(below, _join(path, str(n)), found) for n, below in enumerate(value))
    if _is_stateful(value):
        value.load_state_dict(_rebuild(value.state_dict(), path, found))
        return value
    return found[path]


def _instead(value: Any) -> str:
    """Return what to give in place of a value that cannot be stored."""
    if callable(getattr(value, "numpy", None)):
        return (
            "give its NumPy array: tensor.numpy() (of PyTorch: tensor.detach().cpu().numpy(), which shares the "
            "memory of a CPU tensor, so that restoring reads into the tensor itself)"
        )
    if hasattr(value, "__array__"):
        return "give its NumPy array: numpy.asarray(value)"
    return "use NumPy arrays, bytes, JSON values, random generators, or an object with state_dict and load_state_dict"


def _join(path: str, name: str) -> str:
    escaped = name.replace("~", "~0").replace("/", "~1")
    return f"{path}/{escaped}" if path else escaped


def _numpy() -> Any:
    # A state can only hold arrays if the program imported NumPy.
    return sys.modules.get("numpy")


def _is_stateful(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _is_json(value: Any) -> bool:
    if value is None or isinstance(value, (bool, int, float, str)):
        numpy = _numpy()
        return numpy is None or not isinstance(value, numpy.generic)  # numpy.float64 is a float too
    if isinstance(value, (list, tuple)):
        return all(_is_json(below) for below in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(below) for key, below in value.items())
    return False


def _is_leaf(value: Any) -> bool:
    numpy = _numpy()
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return True
    return isinstance(value, (bytes, bytearray)) or is_generator(value) or _is_json(value)


def is_generator(value: Any) -> bool:
    """Whether a leaf is a random generator, which is restored in place."""
    numpy = _numpy()
    return isinstance(value, random.Random) or (
        numpy is not None and isinstance(value, (numpy.random.Generator, numpy.random.RandomState))
    )


def _check_dtype(array: Any, where: str) -> None:
    if type(array).__name__ == "MaskedArray" or array.dtype.kind in "OV":
        raise UnsupportedValueError(
            f"state {where}: an array of dtype {array.dtype} ({type(array).__name__}) cannot be stored; "
            "use a numeric, boolean, time or string dtype"
        )


def _copier(source: memoryview) -> Callable[[memoryview, int], None]:
    def copy(target: memoryview, start: int) -> None:
        target[:] = source[start : start + len(target)]

    return copy


def _json_form(leaf: Any) -> Any:
    if isinstance(leaf, random.Random):
        return leaf.getstate()
    numpy = _numpy()
    if numpy is not None and isinstance(leaf, numpy.random.Generator):
        return leaf.bit_generator.state
    if numpy is not None and isinstance(leaf, numpy.random.RandomState):
        return leaf.get_state(legacy=False)
    return leaf


def _encode(value: Any, where: str) -> bytes:
    def other(part: Any) -> Any:
        dtype, _ = shape_of(part)
        if dtype is None:
            raise TypeError(f"{type(part).__name__} is not JSON")
        return {"dtype": dtype, "values": part.tolist()}

    try:
        return json.dumps(value, separators=(",", ":"), default=other).encode()
    except (TypeError, ValueError) as err:
        raise UnsupportedValueError(f"state {where}: {err}") from err


def _arrays(part: dict[str, Any]) -> Any:
    if set(part) == {"dtype", "values"}:
        import numpy

        return numpy.array(part["values"], dtype=part["dtype"])
    return part


def _from_json(leaf: Any, stored: Any) -> Any:
    numpy = _numpy()
    if isinstance(leaf, random.Random):
        version, words, gauss = stored
        leaf.setstate((version, tuple(words), gauss))
        return leaf
    if numpy is not None and isinstance(leaf, numpy.random.Generator):
        leaf.bit_generator.state = stored
        return leaf
    if numpy is not None and isinstance(leaf, numpy.random.RandomState):
        leaf.set_state(stored)
        return leaf
    return tuple(stored) if isinstance(leaf, tuple) and isinstance(stored, list) else stored


def mismatch(component: str, name: str, leaf: Any, dtype: str | None, shape: tuple[int, ...] | None) -> None:
    """Raise StateMismatchError if an array of this dtype and shape cannot become the leaf."""
    wanted = shape_of(leaf)
    if wanted != (dtype, shape):
        raise StateMismatchError(
            f"state {component}/{name}: the checkpoint has {_kind(dtype, shape)}, "
            f"the program has {_kind(*wanted)}; build the state with the same code and sizes as when it was saved"
        )


def _kind(dtype: str | None, shape: tuple[int, ...] | None) -> str:
    return "a value that is no array" if dtype is None else f"{dtype}{list(shape or ())}"
