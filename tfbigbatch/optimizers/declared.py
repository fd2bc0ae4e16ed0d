"""Hyperparameters, declared once: a field gives an argument of the constructor, its check, its text and its config.

    class Lion(Rule):
        beta_1: float = hyper(fraction, "decay in the update, in [0, 1).", default=0.9)

A class of fields has a constructor of keyword arguments, which editors, `help` and type checkers see. Dataclasses would
give that too; but they set attributes on the class, which hides Keras' own properties, and check nothing.
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, dataclass_transform

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import exclusions
from tfbigbatch.optimizers.aliases import unknown
from tfbigbatch.utils import arguments

_Value = TypeVar("_Value")
# (label, name, value) -> the value to use; raises InputError where it cannot be used.
Check = Callable[[str, str, Any], Any]
# A number, a schedule of the Keras in use, or a callable without arguments.
Changing = float | Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Hyperparameter:
    """One argument of a constructor.

    Attributes:
      check: of its value.
      doc: one sentence, or a few, that follow the name.
      default: its value where none is given; `inspect.Parameter.empty` where one must be.
      kw_only: False where it may come by position.
      of_state: the shapes of the state depend on it, so that it stays as it was when the variables became known.
      alias: the argument's name, where it is not that of the field.
      attribute: the field's name.
      annotation: its type, as the class says it.
    """

    check: Check
    doc: str
    default: Any
    kw_only: bool
    of_state: bool
    alias: str | None
    attribute: str = ""
    annotation: Any = None


def hyper(
    check: Check,
    doc: str,
    *,
    default: _Value = inspect.Parameter.empty,  # type: ignore[assignment]
    kw_only: bool = True,
    of_state: bool = False,
    alias: str | None = None,
) -> _Value:
    """A field of a class of hyperparameters; the arguments are those of `Hyperparameter`."""
    return Hyperparameter(check, doc, default, kw_only, of_state, alias)  # type: ignore[return-value]


def group(kind: type[Group], doc: str, *, default: Any) -> Any:
    """A field that holds a `Group`: of the type `Grouped[kind]`. What the state depends on, its own fields say."""
    return Hyperparameter(kind.check, kind.described(doc), default, kw_only=True, of_state=False, alias=None)


@dataclass_transform(kw_only_default=True, field_specifiers=(hyper, group))
class Declared:
    """A class whose constructor takes the fields that `hyper` made, its bases' included, and checks them.

    Attributes:
      hyperparameters: by the argument's name, those of the class first, then those of its bases.
    """

    hyperparameters: ClassVar[Mapping[str, Hyperparameter]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        annotations = vars(cls).get("__annotations__", {})
        fields = {name: each for name, each in vars(cls).items() if isinstance(each, Hyperparameter)}
        found: dict[str, Hyperparameter] = {}
        for name, each in fields.items():
            # Keras' property of this name stays.
            delattr(cls, name)
            own = dataclasses.replace(each, attribute=name, annotation=annotations.get(name))
            found[each.alias or name] = own
        for base in cls.__mro__[1:]:
            for name, each in vars(base).get("hyperparameters", {}).items():
                found.setdefault(name, each)
        # Those that may come by position come first, those of the bases before the class' own, as in a dataclass.
        in_order = {name: None for base in reversed(cls.__mro__) for name in vars(base).get("hyperparameters", {})}
        positional = [name for name in in_order if name in found and not found[name].kw_only]
        cls.hyperparameters = {name: found[name] for name in [*positional, *found]}
        cls._text = str(vars(cls).get("__doc__") or cls._text)
        if "__init__" not in vars(cls) and found:
            cls.__init__ = _constructor(cls.hyperparameters)  # type: ignore[method-assign]
            cls.__doc__ = documented(cls._text, cls.hyperparameters)

    _text: ClassVar[str] = ""

    def configure(self, values: dict[str, Any]) -> None:
        """Takes the values of all hyperparameters after their checks: here as attributes."""
        for name, value in values.items():
            setattr(self, self.hyperparameters[name].attribute, value)

    def config(self, without: Sequence[str] = ()) -> dict[str, Any]:
        """The hyperparameters as plain values: numbers, texts, lists and dictionaries; but for some by name."""
        kept = {name: each for name, each in self.hyperparameters.items() if name not in without}
        return {name: plain(getattr(self, each.attribute)) for name, each in kept.items()}


def _constructor(hyperparameters: Mapping[str, Hyperparameter]) -> Callable[..., None]:
    def __init__(self: Any, *values: Any, **named: Any) -> None:
        self.configure(checked(type(self).__name__, hyperparameters, values, named))

    kinds = inspect.Parameter
    __init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [kinds("self", kinds.POSITIONAL_OR_KEYWORD)]
        + [
            kinds(
                name,
                kinds.KEYWORD_ONLY if each.kw_only else kinds.POSITIONAL_OR_KEYWORD,
                default=each.default,
                annotation=each.annotation or kinds.empty,
            )
            for name, each in hyperparameters.items()
        ]
    )
    return __init__


def documented(text: str, hyperparameters: Mapping[str, Hyperparameter]) -> str:
    """A docstring with the arguments before its 'Raises:', or at its end."""
    text, _, raises = inspect.cleandoc(text).partition("\n\nRaises:\n")
    lines = [
        textwrap.fill(f"{name}: {each.doc}", 100, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
        for name, each in hyperparameters.items()
    ]
    found = "\n".join([text, "", "Args:", *lines])
    return f"{found}\n\nRaises:\n{raises}" if raises else found


def checked(
    label: str, hyperparameters: Mapping[str, Hyperparameter], values: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """All hyperparameters by name: those that were given, checked, and the defaults of the others.

    Raises:
      ValueError: one came twice, has no default, or is unknown; or a value cannot be used.
    """
    positional = [name for name, each in hyperparameters.items() if not each.kw_only]
    if len(values) > len(positional):
        raise InputError(
            f"{label}: {', '.join(map(repr, values[len(positional) :]))} came without a name; only "
            f"{' and '.join(positional) or 'none'} may. The others are "
            f"{', '.join(sorted(set(hyperparameters) - set(positional)))}."
        )
    given = dict(zip(positional, values))
    for name, value in named.items():
        if name in given:
            raise InputError(f"{label}: {name} came twice, as {given[name]!r} and as {value!r}.")
        if name not in hyperparameters:
            raise unknown(label, name, value, hyperparameters)
        given[name] = value
    missing = [
        name for name, each in hyperparameters.items() if each.default is inspect.Parameter.empty and name not in given
    ]
    if missing:
        raise InputError(f"{label} lacks {' and '.join(missing)}: {hyperparameters[missing[0]].doc}")
    return {
        name: each.check(label, name, given[name]) if name in given else each.default
        for name, each in hyperparameters.items()
    }


def plain(value: Any) -> Any:
    """A hyperparameter's value as numbers, texts, lists and dictionaries."""
    if hasattr(value, "get_config"):
        return value.get_config()
    if isinstance(value, Declared):
        return value.config()
    return [plain(each) for each in value] if isinstance(value, (tuple, list)) else value


class Group(Declared):
    """One argument of several fields, such as `Shampoo(root={"every": 5})`; it does not change.

    A dictionary of some of its fields gives one, and so does the value of the field `word` alone, where there is one.
    """

    word: ClassVar[str | None] = None

    @classmethod
    def check(cls, label: str, name: str, value: Any) -> Any:
        """The group from a dictionary, a word, or a group; raises ValueError for an unknown field or a bad value."""
        if isinstance(value, Group):
            value = value.config()
        if cls.word and isinstance(value, str):
            value = {cls.word: value}
        if not isinstance(value, Mapping):
            word = f"a text, its {cls.word}, or " if cls.word else ""
            fields = ", ".join(cls.hyperparameters)
            raise InputError(f"{label}: {name}={value!r}; expected {word}a dictionary of {fields}.")
        for field, each in value.items():
            if field not in cls.hyperparameters:
                raise unknown(f"{label}: {name}", field, each, cls.hyperparameters)
        checks = cls.hyperparameters
        return cls(**{field: checks[field].check(label, f"{name}.{field}", each) for field, each in value.items()})

    @classmethod
    def described(cls, doc: str) -> str:
        """What a field of this group's type says: `doc`, then the fields, their defaults and documentation."""
        fields = "; ".join(f"'{name}' ({each.default!r}), {each.doc}" for name, each in cls.hyperparameters.items())
        word = f"the {cls.word} alone, or " if cls.word else ""
        return f"{doc}: {word}a dictionary of some of {fields}."

    def configure(self, values: dict[str, Any]) -> None:
        vars(self).update(values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise InputError(f"{type(self).__name__}.{name} is not to be set: give the optimizer another {{...}} of it.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.config() == other.config()

    def __hash__(self) -> int:
        return hash(tuple(self.config().items()))

    def __repr__(self) -> str:
        return repr(self.config())


_Kind = TypeVar("_Kind", bound=Group)


class Grouped(Generic[_Kind]):
    """The type of a field made by `group`: a constructor takes a dictionary or a word too, an optimizer has the group.

    For type checkers, which take the type of the argument from `__set__`.
    """

    if TYPE_CHECKING:

        def __get__(self, instance: Any, owner: Any = None) -> _Kind: ...

        def __set__(self, instance: Any, value: _Kind | Mapping[str, Any] | str) -> None: ...


def is_schedule(value: Any) -> bool:
    """True for a learning-rate schedule of either Keras; this module imports neither."""
    return "LearningRateSchedule" in [cls.__name__ for cls in type(value).__mro__]


# ---- Checks -----------------------------------------------------------------------------------


def number(**bounds: Any) -> Check:
    """A check for a finite number; `bounds` as for `utils.arguments.number`."""
    return lambda label, name, value: arguments.number(name, _value_of(value), owner=label, **bounds)


def integer(**bounds: Any) -> Check:
    """A check for a whole number; `bounds` as for `utils.arguments.integer`."""
    return lambda label, name, value: arguments.integer(name, _value_of(value), owner=label, **bounds)


def optional(check: Check) -> Check:
    """A check for None, or what another check takes."""
    return lambda label, name, value: None if value is None else check(label, name, value)


def one_of(*known: str) -> Check:
    """A check for one of a few words."""
    return lambda label, name, value: arguments.one_of(name, value, known, owner=label)


def anything(label: str, name: str, value: Any) -> Any:
    """No check: what takes the value checks it."""
    del label, name
    return value


def flag(label: str, name: str, value: Any) -> bool:
    """A check for True or False."""
    return arguments.flag(name, _value_of(value), owner=label)


not_negative = number(least=0.0)
positive = number(above=0.0)
fraction = number(least=0.0, below=1.0)
count = integer(least=1)
whole = integer(least=0)


def changing(label: str, name: str, value: Any) -> Any:
    """A check for a number of 0 or more, or what gives one at each step: a schedule, or a callable."""
    is_variable = hasattr(value, "assign")
    return value if callable(value) and not is_variable else not_negative(label, name, value)


def decay(label: str, name: str, value: Any) -> Any:
    """`changing`, with None for 0."""
    return 0.0 if value is None else changing(label, name, value)


def bounds(label: str, name: str, value: Any) -> tuple[float | None, float | None] | None:
    """A check for (low, high), either of them None; or None."""
    if value is None:
        return None
    try:
        low, high = (None if each is None or each == float("inf") else not_negative("", name, each) for each in value)
        right = low is None or high is None or low <= high
    except (TypeError, ValueError):
        right = False
    if not right:
        raise InputError(
            f"{label}: {name}={value!r} is not a pair of bounds; expected (low, high) with 0 <= low <= high, either of "
            "them None for no bound."
        )
    return low, high


def patterns(label: str, name: str, value: Any) -> tuple[str, ...] | str | None:
    """A check for regular expressions, the name of a set of them, or None."""
    del label
    return exclusions.check_patterns(name, value)


def text(label: str, name: str, value: Any) -> str | None:
    """A check for a name, or None."""
    if value is not None and not isinstance(value, str):
        raise InputError(f"{label}: {name}={value!r} is no text; expected a name, or None.")
    return value


def _value_of(value: Any) -> Any:
    """The present value of a scalar tensor or variable of TensorFlow or Keras; anything else as it is."""
    if hasattr(value, "numpy") and getattr(value, "shape", None) == ():
        return value.numpy()
    return value
