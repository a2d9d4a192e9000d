"""TOML files -> typed configurations; every mistake is one sentence that names file and key."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from hatevolution.configs.checks import check_addresses, check_model_name
from hatevolution.configs.schema import IN_PROCESS, ExperimentConfig, ModelConfig
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["find", "load_experiment", "load_model", "load_toml", "shipped", "shipped_names"]

T = TypeVar("T", bound=msgspec.Struct)


def shipped(folder: str) -> Path:
    """Return the path of one of the folders of TOML files that the project ships (``models``, ``prompts``, ...)."""
    return Path(str(files("hatevolution.configs"))) / folder


def shipped_names(folder: str) -> list[str]:
    """Return the sorted names of the shipped TOML files of a folder."""
    return sorted(path.stem for path in shipped(folder).glob("*.toml"))


def find(reference: str, folder: str, relative_to: Path | None) -> Path:
    """Return the file that a name or path stands for.

    Args:
        reference: A name in the shipped ``folder``, or a path ending in ``.toml`` (relative to ``relative_to``).
        folder: ``models``, ``datasets``, ``experiments`` or ``prompts``.
        relative_to: Folder of the file that holds the reference; None for the working directory.

    Raises:
        ConfigError: There is no such file; the text names the nearest known one.
    """
    if reference.endswith(".toml") or "/" in reference:
        path = Path(reference).expanduser()
        path = path if path.is_absolute() or relative_to is None else relative_to / path
        if path.is_file():
            return path
        raise ConfigError(f"There is no file {path} (asked for as one of the {folder}).")
    path = shipped(folder) / f"{reference}.toml"
    if path.is_file():
        return path
    known = shipped_names(folder)
    raise ConfigError(
        f"There is no {folder.removesuffix('s')} named {reference!r}{_nearest(reference, known)}; "
        f"known: {', '.join(known) or 'none'}; a file of your own is named by its path, ending in .toml."
    )


def load_toml(path: Path, struct: type[T]) -> T:
    """Read a TOML file into a frozen struct.

    Raises:
        ConfigError: The file can't be read, is not TOML, or has an unknown, missing or wrongly typed key.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text, which TOML has to be.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from None
    for key, value in _unusable_numbers(data):
        raise ConfigError(f"{path}: {key} = {value} is no number to work with; give a finite one of at most 64 bits.")
    for where, key, known in _unknown_keys(data, struct, ()):
        place = f" in [{'.'.join(where)}]" if where else ""
        raise ConfigError(f"{path}: unknown key {key!r}{place}{_nearest(key, known)}; known keys: {', '.join(known)}.")
    try:
        return msgspec.convert(data, struct, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {_in_words(str(error), struct)}.") from None


def load_model(reference: str, relative_to: Path | None = None) -> tuple[ModelConfig, Path]:
    """Return a model's configuration and the file it came from.

    Raises:
        ConfigError: There is no such file, or what stands in it is wrong.
    """
    path = find(reference, "models", relative_to)
    config = load_toml(path, ModelConfig)
    check_model_name(config.name, str(path))
    check_addresses(_asked_at(config), str(path))
    return config, path


def _asked_at(config: ModelConfig) -> list[str]:
    """Return the base URLs at which somebody is to be asked: adapters that ask nobody may say so in their place."""
    nobody = {IN_PROCESS} if config.adapter in ("embedded", "scripted") else set()
    return [url for url in config.endpoint.base_urls if url not in nobody]


def load_experiment(reference: str) -> tuple[ExperimentConfig, Path]:
    """Return an experiment and the file it came from; a path, or the name of a shipped one."""
    if Path(reference).suffix == ".toml" and not Path(reference).is_file():
        # `configs/experiments/NAME.toml` works from any folder: the README's spelling means the shipped file.
        candidate = shipped("experiments") / Path(reference).name
        if Path(reference).parts[:-1] == ("configs", "experiments") and candidate.is_file():
            return load_toml(candidate, ExperimentConfig), candidate
    path = find(reference, "experiments", None)
    return load_toml(path, ExperimentConfig), path


_WORDS = {"array": "a list", "str": "a text", "object": "a table", "int": "a whole number", "bool": "true or false"}
_PATTERNS = {
    "w.+-]*": "a name has letters, digits, '_', '.', '+' and '-' and begins with one of the first three: no blank, "
    "no comma, no slash",
    "[0-9a-f]{64}": "needs to be 64 hexadecimal digits in lower case",
}
"""What stands in a schema's pattern -> what a person is told."""
_NO_NAME = "holds a character that a name may not (a slash, a control character, ...)"
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}


def _in_words(message: str, struct: type[msgspec.Struct]) -> str:
    """Return msgspec's message as a person who writes TOML would say it."""
    said, _, place = message.replace("`", "'").partition(" - at '")
    key = place.rstrip("'").removeprefix("$").removeprefix(".")
    where = f"'{key}': " if key else ""
    if missing := re.fullmatch(r"Object missing required field '(.+)'", said):
        return f"the key {missing[1]!r} is missing{f' in [{key}]' if key else ''}"
    if wrong := re.fullmatch(r"Invalid enum value '(.*)'", said, re.DOTALL):
        known = _choices(struct, key)
        return f"{where}{wrong[1]!r} is not one of the known ones{_nearest(wrong[1], known)}: {', '.join(known)}"
    if "matching regex" in said:
        return where + next((words for pattern, words in _PATTERNS.items() if pattern in said), _NO_NAME)
    if wrong := re.fullmatch(r"Expected '(.+)', got '(.+)'", said):
        return f"{where}needs to be {_said(wrong[1])}, not {_said(wrong[2])}"
    if wrong := re.fullmatch(r"Expected '(?:int|float)' (>=|<=|>|<) (.+)", said):
        return f"{where}needs to be {_BOUNDS[wrong[1]]} {wrong[2].removesuffix('.0')}"
    return f"{where}{said[:1].lower()}{said[1:]}"


def _said(types: str) -> str:
    return " or ".join(_WORDS.get(name.strip(), name.strip()) for name in types.split("|"))


def _choices(struct: type[msgspec.Struct], key: str) -> list[str]:
    """Return the values that a key with closed choices may have."""
    annotation: Any = struct
    for part in key.split("."):
        inner = _struct_in(annotation)
        if inner is None:
            return []
        annotation = get_type_hints(inner).get(part)
    options = [annotation, *get_args(annotation)]
    return [str(value) for option in options if get_origin(option) is Literal for value in get_args(option)]


def _nearest(word: str, known: list[str]) -> str:
    matches = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" (did you mean {matches[0]!r}?)" if matches else ""


def _struct_in(annotation: Any) -> type[msgspec.Struct] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, msgspec.Struct):
            return candidate
    return None


def _unusable_numbers(data: Any, key: str = "") -> Iterator[tuple[str, float]]:
    """Yield numbers that neither SQLite nor JSON can hold, with their dotted keys."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from _unusable_numbers(value, f"{key}.{name}" if key else name)
    elif isinstance(data, list):
        for value in data:
            yield from _unusable_numbers(value, key)
    elif (isinstance(data, float) and not math.isfinite(data)) or (isinstance(data, int) and abs(data) >= 2**63):
        yield key, data


def _unknown_keys(
    data: dict[str, Any], struct: type[msgspec.Struct], where: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str, list[str]]]:
    """Yield (place, key, known keys) of each key that the struct has not got, nested tables included."""
    hints = get_type_hints(struct)
    known = [item.encode_name for item in msgspec.structs.fields(struct)]
    names = {item.encode_name: item.name for item in msgspec.structs.fields(struct)}
    for key, value in data.items():
        if key not in names:
            yield where, key, known
            continue
        inner = _struct_in(hints[names[key]])
        if inner is None:
            continue
        tables = value if isinstance(value, list) else [value]
        for table in tables:
            if isinstance(table, dict):
                yield from _unknown_keys(table, inner, (*where, key))
