"""Models whose fields are declared once, with pydantic, and whose errors are ours.

pydantic's own messages repeat what came. Here a message says what must hold, in which field, and
what kind of thing came: places and priors are personal. Arrays, and names from a registry, are read
by functions of ours, see `Reader`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from whereish.errors import InputError
from whereish.strict_json import kind_of, read_json, shown

Schema = dict[str, Any]
Earlier = Mapping[str, Any]
_REPEATED = 1e18  # a number above this is not worth repeating


@dataclass(frozen=True)
class Reader:
    """Marks a field that a function reads, and says what JSON Schema it has.

    The function is given the name of the field, the value, and the fields declared before it.
    """

    read: Callable[[str, Any, Earlier], Any]
    schema: Callable[[], Schema]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        def check(value: Any, info: core_schema.ValidationInfo) -> Any:
            return self.read(str(info.field_name), value, info.data)

        return core_schema.with_info_plain_validator_function(check)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Schema:
        return self.schema()


def one_of(names: Callable[[], tuple[str, ...]], about: Callable[[], str] | None = None) -> Reader:
    """Mark a field that is one of some names, which a registry may add to."""

    def read(field: str, value: Any, earlier: Earlier) -> str:
        if not isinstance(value, str) or value not in names():
            raise InputError(f"{field} must be one of {', '.join(names())}", field)
        return value

    def schema() -> Schema:
        words = {} if about is None else {"description": about()}
        return {"type": "string", "enum": list(names()), **words}

    return Reader(read, schema)


def or_none(reader: Reader, words: tuple[str, ...] = ()) -> Reader:
    """Take None, or a word that stands for it, as well."""

    def read(field: str, value: Any, earlier: Earlier) -> Any:
        missing = value is None or (isinstance(value, str) and value in words)
        return None if missing else reader.read(field, value, earlier)

    return Reader(read, lambda: {"anyOf": [reader.schema(), {"enum": [*words, None]}]})


class _Untitled(GenerateJsonSchema):
    """Fields have no titles: a title would be the name once more."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class Validated(BaseModel):
    """A frozen model that raises InputError. Two of them are equal if they are the same object."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", hide_input_in_errors=True)
    named_first: ClassVar[tuple[str, ...]] = ()  # in messages and in the JSON Schema
    refused: ClassVar[dict[str, str]] = {}  # names that somebody may expect, and what to do instead

    def __init__(self, /, **fields: Any) -> None:
        """Validate the fields, or raise InputError; its ``field`` says which cannot be used."""
        names = self._names()
        other = next((shown(name) for name in fields if name not in names), None)
        if other in self.refused:
            raise InputError(f"{other} must be left out: {self.refused[other]}", other)
        if other is not None:  # by hand: pydantic takes no name that is not Unicode
            raise InputError(f"{other} is not known: a recipe may have {', '.join(names)}", other)
        try:
            super().__init__(**fields)
            return
        except ValidationError as found:
            wrong = _first_error(type(self), found, fields)
        raise wrong  # outside of the handler: pydantic's error would hold the input

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Read a description from JSON, strictly: no NaN, no name twice."""
        return cls.from_document(read_json(text))

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Read a description that was read from JSON before."""
        if not isinstance(document, dict):
            raise InputError(f"a recipe must be an object, got {kind_of(document)}", "body")
        return cls(**document)

    @classmethod
    def json_schema(cls) -> Schema:
        """Return the JSON Schema of a document: for OpenAPI."""
        schema = cls.model_json_schema(schema_generator=_Untitled)
        fields = schema["properties"]
        return {**schema, "properties": {name: fields[name] for name in cls._names()}}

    @classmethod
    def _names(cls) -> tuple[str, ...]:
        """Return the names of the fields in the order in which they are told."""
        return tuple(dict.fromkeys((*cls.named_first, *cls.model_fields)))

    def changed(self, **fields: Any) -> Self:
        """Return a description with other fields, validated like a new one."""
        return type(self)(**{**dict(self), **fields})

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def _first_error(
    model: type[Validated], found: ValidationError, fields: Mapping[str, Any]
) -> InputError:
    """Put the first error of pydantic into our words: what must hold, and what kind came."""
    errors = found.errors(include_url=False, include_input=False)
    order = model._names()

    def rank(error: Any) -> tuple[bool, int]:
        name = error["loc"][0] if error["loc"] else None
        return error["type"] != "missing", order.index(name) if name in order else len(order)

    error = min(errors, key=rank)
    own = error.get("ctx", {}).get("error")
    if isinstance(own, InputError):
        return own
    name = shown(error["loc"][0])
    if error["type"] == "missing":
        return InputError(f"{name} must be given", name)
    value = fields[name]
    if error["type"] == "bool_type":
        return InputError(f"{name} must be true or false, got {kind_of(value)}", name)
    if error["type"].startswith("int_"):
        return InputError(f"{name} must be a whole number, got {kind_of(value)}", name)
    if error["type"] == "float_type" and (isinstance(value, bool) or not isinstance(value, int)):
        return InputError(f"{name} must be a number, got {kind_of(value)}", name)
    # Levels and limits are not personal: they may be repeated.
    bounds = {type(bound).__name__: bound for bound in model.model_fields[name].metadata}
    said = f"{value:g}" if abs(value) < _REPEATED else "one that is too large"
    return InputError(
        f"{name} must be from {bounds['Ge'].ge:g} to {bounds['Le'].le:g}, got {said}", name
    )
