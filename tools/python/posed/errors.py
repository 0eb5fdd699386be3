# SPDX-License-Identifier: Apache-2.0
"""What goes wrong: all of it is an Error, and what took too long a TimeoutError, too."""
from __future__ import annotations


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

    def __init__(self, endpoint: str, timeout_s: float, listens: bool):
        super().__init__(
            "NO_ANSWER",
            f"no posed answered at {endpoint} within {timeout_s:g} s. " +
            ("Something listens there: a posed that is busy, that has CURVE keys "
             "(connect(server_key=...)), or none" if listens else
             "Nothing listens there: start one (posed --source synth:room --loop), or say with "
             "connect(WHERE) or POSED_HOST where it is"))
        self.endpoint, self.timeout_s, self.listens = endpoint, timeout_s, listens


def refused(code: str, message: str, field: str) -> RequestError:
    kind = DeadlineExceeded if code == "DEADLINE_EXCEEDED" else RequestError
    return kind(code, message, field)
