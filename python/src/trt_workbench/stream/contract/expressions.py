"""The arithmetic of contracts, such as `cache_len_next == min(cache_len + To, C)`: parsed, checked, never executed.

Whole numbers stay exact: `/` makes fractions, so that `(T - 9) / 8` either is a whole number or is seen not to be one.
Everything is bounded (length of the text, nesting, numbers, powers), as a contract may come from anywhere.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

Number = int | float | Fraction
_LONGEST = 500
_DEEPEST = 30
_LARGEST = 2**63
_LARGEST_EXPONENT = 63
_TOTAL, _NAMED = "total", "value"

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int]] = {  # with the fewest and most arguments
    "min": (min, 2, 8),
    "max": (max, 2, 8),
    "abs": (abs, 1, 1),
    "ceil": (math.ceil, 1, 1),
    "floor": (math.floor, 1, 1),
}
RESERVED = frozenset(_FUNCTIONS) | {_TOTAL, _NAMED}


class Uncomputable(ValueError):
    """An expression has no value here."""


class Expression:
    """One expression of numbers, names, `+ - * / // % **`, comparisons, `and or not`, `if else`, and functions.

    These are `min max abs ceil floor`; `value("a.b")`, a name that Python would not take for one; and `total(x)`, the
    sum of x over a stream.

    Attributes:
        text: as it was written.
        names: that it needs a value of.
        streams: whether it asks for a total.
    """

    def __init__(self, text: str | int) -> None:
        """Parse `text`.

        Raises:
            ValueError: it is no expression, or one with more than arithmetic in it.
        """
        self.text = str(text)
        if len(self.text) > _LONGEST:
            raise ValueError(f"an expression has at most {_LONGEST} characters, this one has {len(self.text)}")
        try:
            with warnings.catch_warnings():  # such as of `1if`
                warnings.simplefilter("ignore")
                self._tree = ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"{self.text!r} is not an expression ({getattr(error, 'msg', None) or error})") from error
        self.names = frozenset(self._check(self._tree, 0, inside_total=False))
        self.streams = any(_called(node) == _TOTAL for node in ast.walk(self._tree))

    def __call__(self, values: Mapping[str, Any], chunks: Sequence[Mapping[str, Any]] = ()) -> Any:
        """Return the value: a number or a truth.

        Args:
            values: by name; of a stream, those of its last chunk.
            chunks: the values of each chunk of a stream, which totals are taken over.

        Raises:
            Uncomputable: a name has no value, something is divided by zero, or a number becomes too large.
        """
        return self._value(self._tree, values, chunks)

    def totals(self, chunks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the value of every total in it, by its text; `chunks` as of a call."""
        found = [node for node in ast.walk(self._tree) if _called(node) == _TOTAL]
        return {ast.unparse(node): self._value(node, {}, chunks) for node in found}

    def whole(self, values: Mapping[str, Any]) -> int:
        """Return the value, which has to be a whole number.

        Raises:
            Uncomputable: as a call, or it is not one.
        """
        found = self(values)
        if isinstance(found, bool) or not math.isfinite(found) or found != int(found):
            shown = f"{found.numerator}/{found.denominator}" if isinstance(found, Fraction) else found
            raise Uncomputable(f"{self.text} is {shown}, not a whole number")
        return int(found)

    def _check(self, node: ast.AST, depth: int, *, inside_total: bool) -> Iterable[str]:
        if depth > _DEEPEST:
            raise ValueError(f"{self.text!r} is nested deeper than {_DEEPEST} levels")
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                if not abs(number) <= _LARGEST:
                    raise ValueError(f"{self.text!r} has a number above 2^63")
                return
            case ast.Name(id=name):
                if name in RESERVED:
                    raise ValueError(f"{self.text!r} uses {name}, which is a function, as a name")
                yield name
                return
            case ast.Call(func=ast.Name(id="value"), args=[ast.Constant(value=str(name))], keywords=[]):
                yield name
                return
            case ast.Call(func=ast.Name(id="total"), args=[argument], keywords=[]) if not inside_total:
                yield from self._check(argument, depth + 1, inside_total=True)
                return
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
                _, fewest, most = _FUNCTIONS[name]
                if not fewest <= len(arguments) <= most:
                    raise ValueError(f"{self.text!r} calls {name} with a wrong number of arguments, {len(arguments)}")
                parts: Sequence[ast.AST] = arguments
            case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _OPERATORS or isinstance(
                kind, ast.Div | ast.Pow
            ):
                parts = [left, right]
            case ast.Compare(left=left, ops=kinds, comparators=others) if all(
                type(kind) in _OPERATORS for kind in kinds
            ):
                parts = [left, *others]
            case ast.BoolOp(values=several):
                parts = several
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not(), operand=operand):
                parts = [operand]
            case ast.IfExp(test=test, body=body, orelse=orelse):
                parts = [test, body, orelse]
            case _:
                what = ast.unparse(node) if isinstance(node, ast.expr) else self.text
                raise ValueError(f"{self.text!r} holds {what:.80}, which is not arithmetic")
        for part in parts:
            yield from self._check(part, depth + 1, inside_total=inside_total)

    def _value(self, node: ast.AST, values: Mapping[str, Any], chunks: Sequence[Mapping[str, Any]]) -> Any:
        def of(part: ast.AST) -> Any:
            return self._value(part, values, chunks)

        match node:
            case ast.Constant(value=number):
                return number
            case ast.Name(id=name) | ast.Call(func=ast.Name(id="value"), args=[ast.Constant(value=str(name))]):
                if name not in values:
                    raise Uncomputable(f"{self.text} needs {name}, which has no value here")
                return values[name]
            case ast.Call(func=ast.Name(id="total"), args=[argument]):
                return self._bounded(sum(self._value(argument, chunk, ()) for chunk in chunks))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._guarded(_FUNCTIONS[name][0], *map(of, arguments))
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self._guarded(_divided, of(left), of(right))
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self._guarded(_power, of(left), of(right))
            case ast.BinOp(left=left, op=kind, right=right):
                return self._guarded(_OPERATORS[type(kind)], of(left), of(right))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not of(operand)
            case ast.UnaryOp(op=kind, operand=operand):
                return -of(operand) if isinstance(kind, ast.USub) else of(operand)
            case ast.Compare(left=left, ops=kinds, comparators=others):
                found = [of(left), *map(of, others)]
                pairs = zip(kinds, found, found[1:], strict=False)
                return all(_OPERATORS[type(kind)](one, other) for kind, one, other in pairs)
            case ast.BoolOp(op=kind, values=several):
                return all(map(of, several)) if isinstance(kind, ast.And) else any(map(of, several))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return of(body) if of(test) else of(orelse)
        raise AssertionError(node)  # `_check` rejects all others

    def _guarded(self, work: Callable[..., Any], *operands: Any) -> Any:
        try:
            return self._bounded(work(*operands))
        except ZeroDivisionError as error:
            raise Uncomputable(f"{self.text} divides by zero") from error
        except (OverflowError, TypeError, ValueError) as error:
            raise Uncomputable(f"{self.text} cannot be computed ({error})") from error

    def _bounded(self, number: Any) -> Any:
        parts = (number.numerator, number.denominator) if isinstance(number, Fraction) else (number,)
        if any(abs(part) > _LARGEST for part in parts):  # NaN passes: what is compared with it is false
            raise Uncomputable(f"{self.text} gives a number above 2^63")
        return number

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and ast.dump(self._tree) == ast.dump(other._tree)

    def __hash__(self) -> int:
        return hash(ast.dump(self._tree))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema for pydantic: read from a text or a whole number, written as that."""
        written = core_schema.plain_serializer_function_ser_schema(_as_written)
        return core_schema.no_info_plain_validator_function(_read, serialization=written)


def _read(given: Any) -> Expression:
    if isinstance(given, Expression):
        return given
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise ValueError(f"expected an expression or a whole number, not {given!r:.60}")
    if isinstance(given, int) and abs(given) > _LARGEST:
        raise ValueError("this number is above 2^63")
    return Expression(given)


def _as_written(expression: Expression) -> str | int:
    text = expression.text
    return int(text) if text.isascii() and text.removeprefix("-").isdigit() else text


def _called(node: ast.AST) -> str | None:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None


def _divided(one: Number, other: Number) -> Number:
    if isinstance(one, float) or isinstance(other, float):
        return one / other
    found = Fraction(one) / Fraction(other)
    return found.numerator if found.denominator == 1 else found


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(exponent, bool) or not isinstance(exponent, int) or not 0 <= exponent <= _LARGEST_EXPONENT:
        raise OverflowError(f"an exponent is a whole number from 0 to {_LARGEST_EXPONENT}")
    return base**exponent
