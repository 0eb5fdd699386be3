# SPDX-License-Identifier: Apache-2.0
"""What goes wrong: all of it is an Error, and what took too long a TimeoutError, too. And the
checks of what a program gives: TypeError or ValueError with the argument's name."""
from __future__ import annotations

import numbers
from typing import Any

TIMEOUT_MAX_S = 1e6  # milliseconds fit an int


class Error(Exception):
    """`code` ("NOT_FOUND"), the sentence `message`, and `field`, the path of the wrong field of a
    request, or ""."""

    def __init__(self, code: str, message: str, field: str = ""):
        super().__init__(f"{code}{' ' + field if field else ''}: {message}")
        self.code, self.message, self.field = code, message, field


class RequestError(Error):
    """The daemon refused a request: `code` is one of `Code` in proto/requests.proto."""


class DeadlineExceeded(RequestError, TimeoutError):
    """The daemon gave the request up at its deadline (`timeout_s`)."""


class NoAnswer(Error, TimeoutError):
    """Nothing came in time from `endpoint`. A request that had not been sent yet is dropped; one
    that had may have been carried out."""

    def __init__(self, endpoint: str, timeout_s: float, listens: bool, quiet: str = ""):
        """`quiet` names the topics of which nothing came though the daemon answers."""
        said = f"no posed answered at {endpoint} within {timeout_s:g} s. "
        if quiet:
            said = f"no message of topic {quiet} came in {timeout_s:g} s. The daemon answers"
        elif listens:
            said += ("Something listens there: a posed that is busy, that has CURVE keys "
                     "(connect(server_key=...)), another of its sockets, or none")
        else:
            said += ("Nothing listens there: start one (posed --source synth:room --loop), or say "
                     "with connect(WHERE) or POSED_HOST where it is")
        super().__init__("NO_ANSWER", said)
        self.endpoint, self.timeout_s, self.listens = endpoint, timeout_s, listens


def refused(code: str, message: str, field: str) -> RequestError:
    kind = DeadlineExceeded if code == "DEADLINE_EXCEEDED" else RequestError
    return kind(code, message, field)


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}: a text is wanted, not {value!r}")
    return value


def seconds(name: str, value: Any, least: float = 1e-9) -> float:
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: seconds are wanted, not {value!r}")
    number = float(value)
    if not least <= number < TIMEOUT_MAX_S:
        raise ValueError(f"{name}: seconds above 0 and below {TIMEOUT_MAX_S:g} are wanted, "
                         f"not {value!r}")
    return number
