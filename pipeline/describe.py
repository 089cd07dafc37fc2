"""What leakpath can read and what it writes, told from the registry and the data contract."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from ingest.errors import BadInput
from ingest.folders import grouped
from ingest.opening import compression, read_head
from ingest.registry import importer_for, importers
from pipeline.inputs import capture_files
from pipeline.progress import printable
from schemas.capture import NAME as NOTES
from schemas.tables import TABLES, Table


def to_json(data: Any) -> str:
    """Plain data as indented JSON."""
    return orjson.dumps(data, option=orjson.OPT_INDENT_2).decode()


def _table(name: str) -> Table:
    try:
        return TABLES[name]
    except KeyError:
        raise BadInput("no such table", where=name, todo="`leakpath tables` lists them") from None


def table_facts(name: str | None) -> list[dict[str, Any]]:
    """Tables with their columns, all or one. Raises BadInput for an unknown name."""
    return [
        {
            "name": table.name,
            "layer": table.layer,
            "grain": table.grain,
            "key": list(table.key),
            "order": list(table.order),
            "columns": [
                {"name": f.name, "type": f.kind, "unit": f.unit, "nullable": f.nullable, "description": f.sentence}
                for f in table.fields
            ],
        }
        for table in ([_table(name)] if name else TABLES.values())
    ]


def tables_lines() -> list[str]:
    """One line a table."""
    width = max(map(len, TABLES))
    return [f"{table.name:<{width}}  {table.layer:<4}  {table.grain}" for table in TABLES.values()]


def table_lines(name: str) -> list[str]:
    """One line a column. Raises BadInput for an unknown name."""
    table = _table(name)
    width = max(len(f.name) for f in table.fields)
    kinds = max(len(f.kind) for f in table.fields)
    units = max(len(f.unit) for f in table.fields)
    lines = [f"{table.name} ({table.layer}): {table.grain}; key {', '.join(table.key)}"]
    for f in table.fields:
        null = "    " if f.nullable else "not null"
        lines.append(f"  {f.name:<{width}}  {f.kind:<{kinds}}  {f.unit:<{units}}  {null:<8}  {f.sentence}")
    return lines


def format_facts() -> list[dict[str, Any]]:
    """The importers, in the order they are asked."""
    return [
        {
            "name": i.name,
            "title": i.title,
            "versions": i.versions,
            "clock": i.clock,
            "produced_by": i.produced_by,
            "recipe": i.recipe,
            "left_out": i.left_out,
            "reference": i.reference,
            "tables": list(i.tables),
        }
        for i in importers()
    ]


def format_lines() -> list[str]:
    """A few lines a format."""
    lines = []
    for fact in format_facts():
        lines += [
            f"{fact['name']}: {fact['title']}",
            f"  made by   {fact['produced_by']}",
            f"  versions  {fact['versions']}",
            f"  clock     {fact['clock']}",
            f"  tables    {', '.join(fact['tables'])}",
            f"  defined   {fact['reference']}",
        ]
    return [*lines, "Files are recognised by content; .gz and .zst are read as they are."]


def sniff_facts(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Format of each file; `note` says what stands in the way or how it is packed."""
    found = []
    files = [file for given in paths for file in capture_files(given) if file.name != NOTES]
    for path in grouped(files):
        try:
            importer = importer_for(b"" if path.is_dir() else read_head(path), path)
            packed = None if path.is_dir() else compression(_first_bytes(path))
            note = packed or ""
            name = importer.name if importer else None
        except BadInput as error:
            name, note = None, error.what
        found.append({"path": printable(str(path)), "format": name, "note": note})
    return found


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)
