"""Sandbox of chat templates: Jinja's immutable sandbox, with a budget.

Jinja compiles a template to Python. This module counts everything that takes time in that code:

    loops, macros, blocks      begin with a call of `step`, which is written into the tree
    outputs                    `finalize`
    filters, tests             wrapped, with their costs
    calls, operators           `call`, `call_binop`, which Jinja calls in a sandbox
    `==`, `in`, `~`, slices    call `weighed` or `made`, which are written into the tree

Constants are not folded when a template is compiled, as Jinja would do.

Import this module only where jinja2 is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from types import BuiltinMethodType
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator
from jinja2.runtime import Macro
from jinja2.sandbox import (
    ImmutableSandboxedEnvironment,
    SandboxedEscapeFormatter,
    SandboxedFormatter,
)
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer
from markupsafe import Markup

from webpte.llm.text.budget import Budget
from webpte.llm.text.costs import (
    GATHERING,
    OPERATORS,
    TESTS,
    Cost,
    cost_of_filter,
    cost_of_method,
    cost_of_table,
    is_linear,
    operate,
    spend_widths,
)

_NODE = 8  # charge of an expression, besides its work
_CALL = 256  # charge of a call; it takes Jinja as long as some thousand characters
_PASSED = frozenset({"_loop_vars", "_block_vars"})  # arguments that Jinja adds to calls


class CountedEnvironment(ImmutableSandboxedEnvironment):
    """An environment whose templates share a budget, which is renewed before each rendering."""

    intercepted_binops = frozenset(OPERATORS)
    intercepted_unops = frozenset("-+")

    def __init__(self, budget: Budget, **options: Any) -> None:
        # Called by the code of compiled templates.
        self.step, self.joined = budget.step, budget.joined
        self.weighed, self.searched, self.made = budget.weighed, budget.searched, budget.made
        self._budget = budget
        super().__init__(optimized=False, finalize=budget.weighed, **options)
        self.code_generator_class = _CodeGenerator
        del self.globals["lipsum"]  # text of any length from nothing

    def count(self) -> None:
        """Wrap filters and tests, once all of them are registered."""
        for name, function in self.filters.items():
            self.filters[name] = self._counted(
                function, cost_of_filter(name), gathers=name in GATHERING, linear=is_linear(name)
            )
        tests: dict[str, Any] = self.tests
        for name in TESTS.keys() & tests.keys():
            tests[name] = self._counted(tests[name], TESTS[name], linear=True)

    def _counted(
        self, function: Callable[..., Any], cost: Cost, *, gathers: bool = False, linear: bool
    ) -> Callable[..., Any]:
        budget = self._budget
        passed = 1 if hasattr(function, "jinja_pass_arg") else 0  # an environment or a context

        @wraps(function)
        def run(*given: Any, **named: Any) -> Any:
            if linear and len(given) == passed + 1 and type(given[passed]) is str and not named:
                budget.step(len(given[passed]))
            else:
                budget.step()
                if gathers:
                    given = (*given[:passed], *_gathered(given[passed:]))
                cost(budget, given[passed:], named)
            return budget.made(function(*given, **named))

        return run

    def call(self, context: Any, function: Any, /, *given: Any, **named: Any) -> Any:
        """Call something from a template."""
        budget = self._budget
        if type(function) is BuiltinMethodType:
            for name in _PASSED:
                named.pop(name, None)
            return self._call_method(function, given, named)
        budget.step(_CALL)
        if isinstance(function, Macro):  # its body is counted
            return super().call(context, function, *given, **named)
        own = {name: value for name, value in named.items() if name not in _PASSED}
        if function is dict or function is Namespace:
            given = _gathered(given)
            cost_of_table(budget, given, own)
        else:
            budget.spend_all([*given, *own.values()])
        return budget.made(super().call(context, function, *given, **named))

    def _call_method(
        self, function: BuiltinMethodType, given: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Call a method of one of Python's built-in types, which are all safe to call."""
        budget, owner, name = self._budget, function.__self__, function.__name__
        if not given and not named and type(owner) is str and is_linear(name):
            budget.step(len(owner))
        else:
            budget.step()
            if name == "join":
                given = _gathered(given)
            cost_of_method(name)(budget, (owner, *given), named)
        return budget.made(function(*given, **named))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        return operate(self._budget, operator, left, right)

    def call_unop(self, context: Any, operator: str, arg: Any) -> Any:
        return self._budget.made(super().call_unop(context, operator, arg))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return `str.format` or `format_map` with each field counted."""
        if super().wrap_str_format(value) is None:
            return None
        text = value.__self__
        formatter: SandboxedFormatter
        if isinstance(text, Markup):
            formatter = _EscapeFormatter(self, escape=text.escape)
        else:
            formatter = _Formatter(self)
        budget, maps = self._budget, value.__name__ == "format_map"
        formatter.budget = budget

        @wraps(value)
        def run(*given: Any, **named: Any) -> str:
            budget.step(len(text))
            if maps:
                (table,) = given
                given, named = (), table
            return type(text)(formatter.vformat(text, given, named))

        return run

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        parsed = super()._parse(source, name, filename)
        _BudgetInserter().visit(parsed)
        parsed.set_environment(self)
        return parsed


def _gathered(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments, with an iterator in the first place turned into a list."""
    if given and hasattr(type(given[0]), "__next__"):
        return (list(given[0]), *given[1:])
    return given


class _Fields:
    """A mixin for formatters that counts each field before it is formatted."""

    budget: Budget

    def convert_field(self, value: Any, conversion: Any) -> Any:
        self.budget.spend_all(value)
        return super().convert_field(value, conversion)  # type: ignore[misc]

    def format_field(self, value: Any, format_spec: str) -> Any:
        spend_widths(self.budget, format_spec)
        self.budget.spend_all(value)
        return super().format_field(value, format_spec)  # type: ignore[misc]


class _Formatter(_Fields, SandboxedFormatter):
    pass


class _EscapeFormatter(_Fields, SandboxedEscapeFormatter):
    pass


class _BudgetInserter(NodeTransformer):
    """A transformer that inserts calls of the budget into a template's tree."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        size, test = _size(node.body), node.test
        self.generic_visit(node)
        node.body.insert(0, _step(size, node))
        if test is not None and node.test is not None:
            node.test = nodes.And(_call("step", node, nodes.Const(_size([test]))), node.test)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        return self._with_body(node, [*node.body, *node.defaults])

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        return self._with_body(node, [*node.body, *node.defaults])

    def visit_Block(self, node: nodes.Block) -> nodes.Node:
        return self._with_body(node, node.body)

    def _with_body(self, node: Any, repeated: list[nodes.Node]) -> nodes.Node:
        size = _size(repeated)
        self.generic_visit(node)
        node.body.insert(0, _step(size, node))
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        """Count both sides, unless a side is a constant: then comparing takes no time."""
        self.generic_visit(node)
        if len(node.ops) == 1:
            (op,) = node.ops
            if op.op in ("in", "notin"):
                if not _is_constant(op.expr):
                    node.expr = _weighed(node.expr)
                    op.expr = _call("searched", op, op.expr)
                return node
            if isinstance(node.expr, nodes.Const) or isinstance(op.expr, nodes.Const):
                return node
        node.expr = _weighed(node.expr)
        for op in node.ops:
            op.expr = _weighed(op.expr)
        return node

    def visit_Add(self, node: nodes.Add) -> nodes.Node:
        """Turn a chain of additions into a single call, since prompts consist of such chains."""
        parts: list[nodes.Expr] = []
        left: nodes.Expr = node
        while isinstance(left, nodes.Add):
            parts.append(left.right)
            left = left.left
        parts.append(left)
        return _call("joined", node, *(self.visit(part) for part in reversed(parts)))

    def visit_Neg(self, node: nodes.Neg) -> nodes.Node:
        self.generic_visit(node)
        number = node.node
        if isinstance(number, nodes.Const) and isinstance(number.value, int | float):
            return nodes.Const(-number.value, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        node.nodes = [_weighed(part) for part in node.nodes]
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:
        self.generic_visit(node)
        node.key = _weighed(node.key)  # it is hashed
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            return _call("made", node, node)
        node.arg = _weighed(node.arg)
        return node


def _call(name: str, near: nodes.Node, *given: nodes.Expr) -> nodes.Call:
    """Return a call of the budget, which `_CodeGenerator` writes as a plain call."""
    function = nodes.EnvironmentAttribute(name, lineno=near.lineno)
    return nodes.Call(function, list(given), [], None, None, lineno=near.lineno)


def _is_constant(node: nodes.Expr) -> bool:
    """Return whether a node is a constant, or a list of constants."""
    if isinstance(node, nodes.List | nodes.Tuple):
        return all(isinstance(item, nodes.Const) for item in node.items)
    return isinstance(node, nodes.Const)


def _weighed(node: nodes.Expr) -> nodes.Expr:
    return node if isinstance(node, nodes.Const) else _call("weighed", node, node)


def _step(size: int, near: nodes.Node) -> nodes.ExprStmt:
    return nodes.ExprStmt(_call("step", near, nodes.Const(size)), lineno=near.lineno)


def _size(body: list[Any]) -> int:
    """Return the charge of running a body once: its text and nodes, without inner bodies."""
    return sum(_NODE + _length(node) for top in body for node in _own_nodes(top))


def _length(node: nodes.Node) -> int:
    if isinstance(node, nodes.TemplateData):
        return len(node.data)
    text = node.value if isinstance(node, nodes.Const) else None
    return len(text) if isinstance(text, str) else 0


def _own_nodes(node: nodes.Node) -> Iterator[nodes.Node]:
    left = [node]
    while left:
        found = left.pop()
        yield found
        counted = isinstance(found, nodes.For | nodes.Macro | nodes.CallBlock | nodes.Block)
        left.extend(found.iter_child_nodes(exclude=("body", "test") if counted else None))


class _CodeGenerator(CodeGenerator):
    """Jinja's code generator, without constant folding, and with plain calls of the budget."""

    def visit_Call(self, node: nodes.Call, frame: Any, forward_caller: bool = False) -> None:
        if not isinstance(node.node, nodes.EnvironmentAttribute):
            super().visit_Call(node, frame, forward_caller=forward_caller)
            return
        self.write(f"environment.{node.node.name}(")
        for given in node.args:
            self.visit(given, frame)
            self.write(", ")
        self.write(")")

    def _output_child_to_const(self, node: nodes.Expr, frame: Any, finalize: Any) -> str:
        if not isinstance(node, nodes.Const | nodes.TemplateData):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)
