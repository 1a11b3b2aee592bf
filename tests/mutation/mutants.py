"""Every way in which one place of a module is changed: cosmic-ray's operators and three of our own."""

import ast
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names
from parso.python.tree import Name

Span = tuple[tuple[int, int], tuple[int, int]]


class _Ours(Operator):
    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


class ArgumentDropper(_Ours):
    """Passes None for a named argument."""

    def mutation_positions(self, node: Any) -> Iterator[Span]:
        if node.type == "argument" and node.children[1] == "=" and node.children[2] != "None":
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ARG002 - the name is cosmic-ray's
        node.children[2] = Name("None", node.children[2].start_pos)
        return node


class FloatScaler(_Ours):
    """Doubles and halves a number that is not whole: a limit that is a little off."""

    def mutation_positions(self, node: Any) -> Iterator[Span]:
        if node.type == "number" and not float(ast.literal_eval(node.value)).is_integer():
            yield from [(node.start_pos, node.end_pos)] * 2

    def mutate(self, node: Any, index: int) -> Any:
        node.value = repr(ast.literal_eval(node.value) * (2.0, 0.5)[index])
        return node


class CallRemover(_Ours):
    """Leaves out a statement that is a call alone."""

    def mutation_positions(self, node: Any) -> Iterator[Span]:
        if node.type == "simple_stmt" and node.children[0].type == "atom_expr":
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ARG002 - the name is cosmic-ray's
        node.children[0] = Name("pass", node.start_pos, prefix=node.get_first_leaf().prefix)
        return node


@dataclass(frozen=True)
class Mutant:
    """A changed module.

    Attributes:
        source: of the whole module.
        line: number of the first line that differs.
        change: that line before and after, `old => new`.
    """

    source: str
    line: int
    change: str


def mutants(source: str, parts: Sequence[str], seed: int) -> list[Mutant]:
    """Return the mutants of a module, in the order of their lines.

    Where an operator of the source can become several others (`<`: `<=`, `>`, `==` and more), one is drawn; of a number
    every change counts. What changes annotations alone is none.

    Args:
        source: of the module.
        parts: names of its functions, methods and classes to change; all of the module if there are none.
        seed: of the draw.
    """
    operators = [one for one in map(get_operator, operator_names()) if not one.arguments()]
    choices: dict[tuple[Any, ...], list[tuple[type[Operator], int]]] = defaultdict(list)
    nodes = list(ast_nodes(get_ast(source)))
    for operator in (*operators, ArgumentDropper, FloatScaler, CallRemover):
        positions = [position for node in nodes for position in operator().mutation_positions(node)]
        kind = operator.__name__.split("_")[0]
        for occurrence, position in enumerate(positions):
            each = occurrence if kind in {"NumberReplacer", "FloatScaler"} else None
            choices[position, kind, each].append((operator, occurrence))
    draw, tree = random.Random(seed), ast.parse(source)
    lines = _lines_of(tree, parts)
    meaning = _meaning(tree)
    found = {}
    for (span, *_), several in sorted(choices.items(), key=repr):
        operator, occurrence = draw.choice(several)
        if lines and span[0][0] not in lines:
            continue
        changed = mutate_code(source, operator(), occurrence) or source
        try:
            same = _meaning(ast.parse(changed)) == meaning
        except SyntaxError:  # such as a minus in place of the stars of `{**more}`
            continue
        if not same:
            found[changed] = _described(source, changed)
    return sorted(found.values(), key=lambda one: (one.line, one.change))


def _lines_of(tree: ast.Module, parts: Sequence[str]) -> set[int]:
    kinds = (ast.FunctionDef, ast.ClassDef)
    chosen = [node for node in ast.walk(tree) if isinstance(node, kinds) and node.name in parts]
    if missing := {*parts} - {node.name for node in chosen}:
        raise ValueError(f"the module has no {', '.join(sorted(missing))}")
    return {line for node in chosen for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def _meaning(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if hasattr(node, name):
                setattr(node, name, None)
    return ast.dump(tree)


def _described(source: str, changed: str) -> Mutant:
    pairs = zip(source.splitlines(), changed.splitlines(), strict=False)
    line, (old, new) = next((line, pair) for line, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    return Mutant(changed, line, f"{old.strip()} => {new.strip()}")
