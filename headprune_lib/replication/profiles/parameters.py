"""Dataclasses of parameters that refuse wrong names, types and values, and say what to give."""

from __future__ import annotations

import dataclasses
import functools
import math
import typing
from collections.abc import Collection
from typing import Annotated

import pydantic
from pydantic import AfterValidator, ConfigDict, StrictFloat, StrictInt, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from headprune_lib.messages import unknown


def _above_0(value: float) -> float:
    if not 0 < value < math.inf:
        raise PydanticCustomError("number", "give a number above 0")
    return value


def _at_least_1(value: int) -> int:
    if value < 1:
        raise PydanticCustomError("number", "give at least 1")
    return value


def _at_least_0(value: int) -> int:
    if value < 0:
        raise PydanticCustomError("number", "give at least 0")
    return value


def _at_least_1_or_all(value: int | None) -> int | None:
    if value is not None and value < 1:
        raise PydanticCustomError("number", "give at least 1, or null for all")
    return value


Count = Annotated[StrictInt, AfterValidator(_at_least_1)]
CountFrom0 = Annotated[StrictInt, AfterValidator(_at_least_0)]
CountOrAll = Annotated[StrictInt | None, AfterValidator(_at_least_1_or_all)]
PositiveInt = Annotated[StrictInt, AfterValidator(_above_0)]
PositiveFloat = Annotated[StrictFloat, AfterValidator(_above_0)]


def one_of(what: str, names: Collection[str]) -> AfterValidator:
    """Refuses a name that is not among ``names`` at that time, and suggests the nearest ones."""

    def check(name: str) -> str:
        if name not in names:
            raise PydanticCustomError("name", "{told}", {"told": unknown(what, name, names)})
        return name

    return AfterValidator(check)


@typing.dataclass_transform(frozen_default=True)
def parameters(cls: type) -> type:
    """A frozen dataclass whose values pydantic checks, also those within sections and lists.

    Raises:
        ValueError: from its constructor, where a value is wrong (all of them are named).
    """
    made = pydantic.dataclasses.dataclass(cls, frozen=True, config=ConfigDict(extra="forbid"))
    checked = made.__init__

    @functools.wraps(checked)
    def __init__(self, *args, **kwargs) -> None:
        try:
            checked(self, *args, **kwargs)
        except ValidationError as error:
            raise ValueError("; ".join(_told(made, one) for one in error.errors())) from None

    made.__init__ = __init__
    return made


def _told(cls: type, error: ErrorDetails) -> str:
    """One wrong value, in words: where it is, what was given and what to give."""
    *sections, name = error["loc"]
    where = ".".join(map(str, error["loc"]))
    if error["type"] == "unexpected_keyword_argument":
        known = [field.name for field in dataclasses.fields(_section(cls, sections))]
        of = f" of {'.'.join(map(str, sections))}" if sections else ""
        return unknown(f"parameter{of}", str(name), known)
    if error["type"] == "missing":
        return f"{where} is missing"
    if error["type"] == "name":
        return error["msg"]
    return f"{where} is {error['input']!r}; {error['msg'].replace('Input should be', 'give')}"


def _section(cls: type, path: list) -> type:
    """The dataclass of a section, through dicts of sections by name."""
    for name in path:
        cls = (
            typing.get_type_hints(cls)[name]
            if dataclasses.is_dataclass(cls)
            else typing.get_args(cls)[-1]
        )
    return cls
