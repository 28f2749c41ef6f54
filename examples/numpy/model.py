"""A perceptron with one hidden layer, its gradient, and Adam: all there is to train here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Parameters = dict[str, Array]

FEATURES = 16
HIDDEN = 32


def new_parameters(seed: int) -> Parameters:
    """Return fresh weights; the same on every rank."""
    rng = np.random.default_rng([seed, 1])
    return {
        "w1": rng.normal(0.0, 0.3, (FEATURES, HIDDEN)),
        "b1": np.zeros(HIDDEN),
        "w2": rng.normal(0.0, 0.3, HIDDEN),
        "b2": np.zeros(1),
    }


def new_optimizer(parameters: Parameters) -> dict[str, object]:
    """Return Adam's state: first and second moments, and the number of steps."""
    return {
        "m": {name: np.zeros_like(value) for name, value in parameters.items()},
        "v": {name: np.zeros_like(value) for name, value in parameters.items()},
        "t": 0,
    }


def samples(count: int, seed: int) -> tuple[Array, Array]:
    """Return a data set: inputs and a smooth function of them."""
    rng = np.random.default_rng([seed, 2])
    x = rng.normal(size=(count, FEATURES))
    return x, np.sin(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2]


def gradient(parameters: Parameters, x: Array, y: Array) -> tuple[float, Parameters]:
    """Return the summed squared error of a batch and its gradient."""
    hidden = np.tanh(x @ parameters["w1"] + parameters["b1"])
    error = hidden @ parameters["w2"] + parameters["b2"][0] - y
    back = np.outer(error, parameters["w2"]) * (1.0 - hidden**2)
    return float(error @ error), {
        "w1": 2.0 * (x.T @ back),
        "b1": 2.0 * back.sum(axis=0),
        "w2": 2.0 * (hidden.T @ error),
        "b2": np.array([2.0 * error.sum()]),
    }


def adam(parameters: Parameters, optimizer: dict[str, object], grads: Parameters, rate: float = 1e-2) -> None:
    """Apply one step of Adam (Kingma and Ba, 2015) in place."""
    t = optimizer["t"] = int(optimizer["t"]) + 1  # type: ignore[call-overload]
    m, v = optimizer["m"], optimizer["v"]
    for name, grad in grads.items():
        m[name] += 0.1 * (grad - m[name])  # type: ignore[index]
        v[name] += 0.001 * (grad**2 - v[name])  # type: ignore[index]
        step = (m[name] / (1 - 0.9**t)) / (np.sqrt(v[name] / (1 - 0.999**t)) + 1e-8)  # type: ignore[index]
        parameters[name] -= rate * step


def pack(loss: float, grads: Parameters) -> Array:
    """Return loss and gradient as one vector, to be summed over the ranks."""
    return np.concatenate([[loss], *(grads[name].ravel() for name in sorted(grads))])


def unpack(vector: Array, like: Parameters) -> tuple[float, Parameters]:
    """Undo :func:`pack`."""
    grads, at = {}, 1
    for name in sorted(like):
        size = like[name].size
        grads[name] = vector[at : at + size].reshape(like[name].shape)
        at += size
    return float(vector[0]), grads
