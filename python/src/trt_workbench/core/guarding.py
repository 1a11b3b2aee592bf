"""Calls into classes of other packages: whatever they raise becomes one sentence with the name they are known by."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType, SimpleNamespace
from typing import Any

from trt_workbench.core.device_errors import device_error
from trt_workbench.core.errors import BackendFailure, ComponentMissing, WorkbenchError

# What a caller gets for what a method of an object returned. Raises WrongAnswer.
Answer = Callable[["Guard", Any, Any], Any]
_NOT_FOREIGN = ("trt_workbench", "builtins", "abc", "typing")


class WrongAnswer(Exception):
    """What a method returned is not what it has to; the text says what it is."""


@dataclass(frozen=True)
class Guard:
    """What calls into a class of another package are guarded with.

    Attributes:
        who: the subject of the sentence, such as `Backend mine`.
        package: name and version of the package.
        answers: by the name of a method.
        passed: errors that are answers.
    """

    who: str
    package: str
    answers: Mapping[str, Answer] = field(default_factory=dict)
    passed: tuple[type[BaseException], ...] = ()

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function of the package and return its checked answer.

        Raises:
            WorkbenchError: as the function raised it; anything else that it raises becomes one, a SystemExit, too.
        """
        try:
            found = function(*args, **kwargs)
            answer = self.answers.get(getattr(function, "__name__", ""))
            return answer(self, getattr(function, "__self__", None), found) if answer else found
        except self.passed:
            raise
        except (WorkbenchError, KeyboardInterrupt):
            raise
        except BaseException as error:  # SystemExit, and panics of other languages, which are no Exceptions
            kind = ComponentMissing if isinstance(error, ImportError) else device_error(error) or BackendFailure
            name = "" if isinstance(error, WrongAnswer) else type(error).__name__
            said = ": ".join(filter(None, (name, str(error))))
            place = getattr(function, "__name__", "a call")
            raise kind(f"{self.who} (package {self.package}) failed in {place}: {said}") from error

    def guarded(self, found: Any) -> Any:
        """Return an object whose methods of foreign make are called so: itself, where it can have attributes."""
        methods = {name: self._method(found, name) for name in dir(type(found)) if _is_foreign(type(found), name)}
        if not hasattr(found, "__dict__"):
            return SimpleNamespace(**methods)
        for name, method in methods.items():
            object.__setattr__(found, name, method)  # that of a frozen dataclass, too
        return found

    def _method(self, found: Any, name: str) -> Callable[..., Any]:
        method = getattr(found, name)

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self.call(method, *args, **kwargs)

        return call


def _is_foreign(kind: type[Any], name: str) -> bool:
    """Return whether a name is of a method that others call and another package wrote."""
    owner = next(one for one in kind.__mro__ if name in vars(one))
    ours = next((one for one in kind.__mro__ if one.__module__.partition(".")[0] == "trt_workbench"), object)
    is_called = not name.startswith("_") or (not name.startswith("__") and hasattr(ours, name))
    is_method = isinstance(vars(owner)[name], FunctionType | classmethod | staticmethod)
    return is_called and is_method and owner.__module__.partition(".")[0] not in _NOT_FOREIGN
