"""Small YAML or JSON documents that a person wrote, checked against a JSON Schema."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from ingest.errors import BadInput

MAX_DOCUMENT_BYTES = 1024 * 1024


class _PlainLoader(yaml.SafeLoader):
    """Plain data without aliases (they can blow up a small file) and without repeated keys; dates stay text."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(None, None, "aliases are not allowed", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be plain text", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is given twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


# JSON and YAML 1.2 write 5e-05; the loader alone takes that for text.
_PlainLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]{1,3}$"), list("-+0123456789")
)


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f" in line {mark.line + 1}" if mark else ""


def read_document(path: Path, schema: dict[str, Any]) -> dict[str, Any]:
    """The document at `path`; an empty one is an empty mapping.

    Raises BadInput naming the file, the key and the reason: missing, larger than 1 MiB, not UTF-8, not
    YAML, or against the schema.
    """
    # jsonschema takes a tenth of a second to import, and most commands read no document.
    import jsonschema

    try:
        with path.open("rb") as file:
            raw = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise BadInput(error.strerror or str(error), where=str(path), todo="check the path") from error
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise BadInput("larger than 1 MiB", where=str(path), todo="give a YAML file of settings")
    try:
        data = yaml.load(raw.decode("utf-8"), _PlainLoader)
    except UnicodeDecodeError as error:
        raise BadInput("not UTF-8 text", where=str(path), todo="save it as UTF-8") from error
    except yaml.YAMLError as error:
        reason = getattr(error, "problem", None) or "no YAML"
        raise BadInput(f"{reason}{_place(error)}", where=str(path), todo="correct the YAML") from error
    except RecursionError as error:
        raise BadInput("nested too deeply", where=str(path), todo="correct the YAML") from error
    except ValueError as error:  # a date that does not exist, a number of thousands of digits
        raise BadInput(f"no value ({str(error)[:100]})", where=str(path), todo="correct the YAML") from error
    data = {} if data is None else data
    problem = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(data))
    if problem is not None:
        key = ".".join(map(str, problem.absolute_path))
        raise BadInput(problem.message[:300], where=f"{path}{f', {key}' if key else ''}", todo="correct it")
    return dict(data)
