"""Compiles a model's chat template and renders it, in the immutable sandbox and under a budget. The only file that imports jinja2.

Called by `prompt.py`, by one thread at a time; a rendering takes some hundred microseconds and is ended after `MAX_CPU_S`. A template
comes with a model that somebody downloaded, so it is hostile until proven otherwise: the sandbox keeps it from Python, and the budget from
the clock and the memory, which the sandbox does not. To that end the parsed template is rewritten before it is compiled: each loop and
macro counts its steps, each joined or compared value is weighed. Templates get what Hugging Face gives them, and of Jinja's filters those
that templates use.
"""

from collections.abc import Callable, Iterator, Mapping
from string import Formatter
from typing import Any, NoReturn, TypeAlias, cast

from jinja2 import TemplateError, Undefined, meta, nodes, pass_context
from jinja2.environment import Template
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.runtime import BlockReference, Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.tests import TESTS
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from prism.chat import template_filters as filters
from prism.chat import template_operations as operations
from prism.chat.template_budget import RenderBudget, RenderLimitExceeded
from prism.chat.template_errors import FailureKind, TemplateFailed, TemplateInvalid
from prism.chat.template_facts import TemplateFacts
from prism.chat.template_text_methods import call_text_method

MAX_SOURCE_CHARS = 64 << 10  # three times the longest that is known; compiling as much takes about a second

# Values inside a template are of any type: Jinja's own signatures say so, and an override has to repeat them.
Value: TypeAlias = Any

# A template cannot spell these names.
_STEP, _CONCATENATE, _WEIGH, _GLANCE = "of prism: step", "of prism: ~", "of prism: weigh", "of prism: glance"
_PLAIN = "of jinja: "

# Added by Jinja's compiler to calls inside loops and blocks, for functions that ask for them.
_HIDDEN_ARGUMENTS = frozenset({"_loop_vars", "_block_vars"})
_COMPARING_TESTS = frozenset(
    {"==", "!=", "<", "<=", ">", ">=", "eq", "equalto", "ne", "lt", "lessthan", "le", "gt", "greaterthan", "ge", "in"}
    | {"lower", "upper"}
)


class _RaisedByTemplate(Exception):
    pass


class CompiledTemplate:
    """A chat template, compiled once. Renders for one caller at a time (the front renders in one thread)."""

    def __init__(self, source: str) -> None:
        """Raises TemplateInvalid."""
        if len(source) > MAX_SOURCE_CHARS:
            raise TemplateInvalid(f"the template has {len(source)} characters, more than {MAX_SOURCE_CHARS}")

        self._environment = _Environment()

        try:
            tree = self._environment.parse(source)
            self.facts = _read_facts(source, tree)
            code = self._environment.compile(_Metering().visit(tree))
            self._template = Template.from_code(self._environment, code, self._environment.make_globals(None))
        # A text can break the compilers, Jinja's and Python's, in many ways (nesting, names, numbers); each means the same.
        except (
            TemplateError,
            SyntaxError,
            RecursionError,
            MemoryError,
            ValueError,
            TypeError,
            RenderLimitExceeded,
        ) as error:
            raise TemplateInvalid(f"{type(error).__name__}: {error}") from error

    def render(self, variables: Mapping[str, object], budget: RenderBudget) -> str:
        """Return the prompt. Raises TemplateFailed."""
        self._environment.budget = budget
        pieces: list[str] = []
        chars = 0

        try:
            for piece in self._template.root_render_func(self._template.new_context(dict(variables))):
                chars += len(piece)

                if chars > budget.max_text_chars:
                    raise RenderLimitExceeded(f"a prompt of more than {budget.max_text_chars} characters")

                pieces.append(piece)
        except _RaisedByTemplate as error:
            raise TemplateFailed(FailureKind.RAISED, str(error)) from error
        except (RenderLimitExceeded, RecursionError, MemoryError) as error:
            raise TemplateFailed(FailureKind.LIMIT, f"the template asks for too much: {error}") from error
        # Whatever an expression of somebody else's program can raise: it is told, and the process goes on.
        except Exception as error:
            raise TemplateFailed(FailureKind.BROKE, f"{type(error).__name__}: {error}") from error

        return "".join(pieces)


class _GenerationTag(Extension):
    """`{% generation %}`, with which templates mark what the assistant said. It matters in training only: the body stays."""

    tags = {"generation"}  # noqa: RUF012 (declared without ClassVar in Jinja)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(operations.OPERATORS)

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[loopcontrols, _GenerationTag],
            finalize=_finalize,
            cache_size=0,
        )
        self.budget = RenderBudget()
        self.filters = _filters()
        self.tests = {**TESTS, **{name: _comparing_test(name) for name in _COMPARING_TESTS}}
        self.globals = {
            "range": self.globals["range"],  # at most 100,000 numbers
            "dict": dict,
            "namespace": _Namespace,
            "raise_exception": _raise_exception,
            "strftime_now": lambda text: operations.now_as(self.budget, str(text)),
        }

    def call_binop(self, context: Context, operator: str, left: Value, right: Value) -> Value:
        return operations.OPERATORS[operator](self.budget, left, right)

    def getitem(self, obj: Value, argument: Value) -> Value:
        if isinstance(argument, slice):
            self.budget.grow(
                8 * operations.length_of(obj) if isinstance(obj, list | tuple) else operations.length_of(obj)
            )
        elif isinstance(argument, tuple):
            self.budget.weigh(argument)

        return super().getitem(obj, argument)

    def call(self, context: Context, obj: Value, /, *args: Value, **kwargs: Value) -> Value:
        self.budget.step()

        if isinstance(obj, Macro | LoopContext | BlockReference | Undefined):
            return super().call(context, obj, *args, **kwargs)

        owner = getattr(obj, "__self__", None)
        given = {name: value for name, value in kwargs.items() if name not in _HIDDEN_ARGUMENTS}

        if isinstance(owner, str):
            return call_text_method(self.budget, obj, owner, args, given)

        if owner is not None and not isinstance(owner, list | tuple | dict | LoopContext):
            raise operations.OperationRefused(f"a method of {type(owner).__name__}")

        for value in (*args, *given.values()):
            self.budget.weigh(value)

        self.budget.step(operations.length_of(owner) // 64)
        return super().call(context, obj, *args, **kwargs)

    def wrap_str_format(self, value: Value) -> Callable[..., str] | None:
        owner = getattr(value, "__self__", None)

        if not isinstance(owner, str) or getattr(value, "__name__", "") not in ("format", "format_map"):
            return None

        def format_text(*args: Value, **kwargs: Value) -> str:
            named = args[0] if value.__name__ == "format_map" else kwargs
            return _BoundedFormatter(self).vformat(owner, args, named)

        return format_text


class _Namespace(Namespace):
    def __repr__(self) -> str:
        return "<Namespace>"  # what it holds may be written out only where it is weighed


class _BoundedFormatter(SandboxedFormatter):
    def format_field(self, value: Value, format_spec: str) -> str:
        budget = cast(_Environment, self._env).budget  # it is made for no other environment
        operations.check_format_spec(format_spec)
        text = Formatter.format_field(
            self, value if isinstance(value, int | float) else budget.text(value), format_spec
        )
        budget.grow(len(text))
        return str(text)


class _Metering(NodeTransformer):
    """Rewrites a parsed template so that nothing in it runs uncounted."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        node.body.insert(0, _step_statement(node))

        if node.test is not None:
            step = nodes.Filter(nodes.Const(1), _STEP, [], [], None, None, lineno=node.lineno)
            node.test = nodes.And(step, node.test, lineno=node.lineno)

        return self.generic_visit(node)

    def visit_Macro(self, node: nodes.Macro | nodes.CallBlock | nodes.Block) -> nodes.Node:
        node.body.insert(0, _step_statement(node))
        return self.generic_visit(node)

    visit_CallBlock = visit_Macro
    visit_Block = visit_Macro

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), _CONCATENATE)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        """A comparison costs what its smaller side weighs, so one side is weighed; the other is looked at for its length."""
        self.generic_visit(node)
        node.expr = _filtered(node.expr, _WEIGH)

        for operand in node.ops:
            operand.expr = _filtered(operand.expr, _GLANCE if operand is node.ops[-1] else _WEIGH)

        return node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)

        for pair in node.items:
            pair.key = _filtered(pair.key, _WEIGH)

        return node

    def visit_ScopedEvalContextModifier(self, node: nodes.ScopedEvalContextModifier) -> NoReturn:
        raise ValueError("a chat template writes no HTML, so it has no use for autoescape")


def _step_statement(node: nodes.Node) -> nodes.ExprStmt:
    """Counts one run of the node's body: its operations and the plain text that it writes."""
    inner = list(node.find_all(nodes.Node))
    chars = sum(len(part.data) for part in inner if isinstance(part, nodes.TemplateData))
    cost = nodes.Const(1 + len(inner) // 32 + chars // 128)
    return nodes.ExprStmt(nodes.Filter(cost, _STEP, [], [], None, None, lineno=node.lineno), lineno=node.lineno)


def _filtered(node: nodes.Expr, name: str) -> nodes.Expr:
    if isinstance(node, nodes.Const):
        return node

    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _raise_exception(message: Value) -> NoReturn:
    raise _RaisedByTemplate(str(message)[:2_000])


def _budget_of(context: Context) -> RenderBudget:
    return cast(_Environment, context.environment).budget  # templates of this file have no other environment


@pass_context
def _finalize(context: Context, value: Value) -> str:
    return _budget_of(context).text(value)


class _Scope:
    """A `filters.FilterScope` over a rendering's context."""

    __slots__ = ("_context", "budget")

    def __init__(self, context: Context) -> None:
        self._context = context
        self.budget = _budget_of(context)

    def plain(self, name: str, value: Value, args: tuple[Value, ...], kwargs: Mapping[str, Value]) -> Value:
        environment = self._context.environment
        return environment.call_filter(_PLAIN + name, value, args, dict(kwargs), self._context, self._context.eval_ctx)


def _filters() -> dict[str, Callable[..., Value]]:
    counted: dict[str, filters.FilterFunction] = {
        **filters.filter_functions(),
        _STEP: filters.step,
        _CONCATENATE: filters.concatenate,
        _WEIGH: filters.weigh,
        _GLANCE: filters.glance,
    }
    plain = {_PLAIN + name: function for name, function in FILTERS.items()}
    return {name: _bound(function) for name, function in counted.items()} | plain


def _bound(function: filters.FilterFunction) -> Callable[..., Value]:
    @pass_context  # which also keeps Jinja from running it while it compiles
    def run(context: Context, *args: Value, **kwargs: Value) -> Value:
        return function(_Scope(context), *args, **kwargs)

    return run


def _comparing_test(name: str) -> Callable[..., Value]:
    test = cast("Callable[..., Value]", TESTS[name])  # declared as plain functions

    @pass_context
    def run(context: Context, value: Value, *args: Value) -> Value:
        scope = _Scope(context)
        filters.weigh(scope, value)

        for other in args:
            filters.glance(scope, other)

        return test(value, *args)

    return run


def _read_facts(source: str, tree: nodes.Template) -> TemplateFacts:
    literals = [node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)]
    plain = [node.data for node in tree.find_all(nodes.TemplateData)]
    keys = [(key, root) for node in tree.find_all(nodes.Expr) for key, root in _key_read(node)]
    # After the literals: it folds lists of them into one constant, in the tree itself.
    variables = frozenset(meta.find_undeclared_variables(tree))

    return TemplateFacts(
        source=source,
        variables=variables,
        literals=frozenset(literals),
        text="\n".join([*literals, *plain]),
        reads_message_tools=any(key == "tools" and (root == "messages" or root not in variables) for key, root in keys),
        reads_tool_calls="tool_calls" in literals or any(key == "tool_calls" for key, _ in keys),
        reads_thinking=any(key == "thinking" and root not in variables for key, root in keys),
        tests_null_content=_tests_null_content(tree),
        counts_id_length=any(
            node.name in ("length", "count") and any(key in ("id", "tool_call_id") for key, _ in _key_read(node.node))
            for node in tree.find_all(nodes.Filter)
        ),
    )


def _key_read(node: nodes.Node | None) -> Iterator[tuple[str, str | None]]:
    """The key that an expression takes out of something, and the variable that this something comes from, if it comes from one."""
    match node:
        case nodes.Getattr(node=owner, attr=str(key)):
            yield key, _root(owner)
        case nodes.Getitem(node=owner, arg=nodes.Const(value=str(key))):
            yield key, _root(owner)
        case nodes.Call(node=nodes.Getattr(node=owner, attr="get"), args=[nodes.Const(value=str(key)), *_]):
            yield key, _root(owner)
        case _:
            pass


def _root(node: nodes.Node) -> str | None:
    while isinstance(node, nodes.Getattr | nodes.Getitem):
        node = node.node

    return node.name if isinstance(node, nodes.Name) else None


def _tests_null_content(tree: nodes.Template) -> bool:
    tested = [node.node for node in tree.find_all(nodes.Test) if node.name == "none"]
    compared = [
        node.expr
        for node in tree.find_all(nodes.Compare)
        if any(isinstance(operand.expr, nodes.Const) and operand.expr.value is None for operand in node.ops)
    ]

    return any(
        (isinstance(node, nodes.Name) and node.name == "content") or any(key == "content" for key, _ in _key_read(node))
        for node in [*tested, *compared]
    )
