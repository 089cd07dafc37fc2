"""Questions to the tables of OUT in SQL: one SELECT, nothing but OUT readable, nothing writable."""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from ingest.errors import BadInput
from pipeline.index import FRONT_VIEW, captures_in, present_tables, view_sql
from pipeline.progress import printable
from schemas.tables import TABLES

_BATCH_ROWS = 16 * 1024
_SHOWN_ROWS = 1000
_MAX_CELL = 60


def _pattern(folder: Path) -> str:
    """The folder with a slash at its end, and nothing in it that a glob would take for a wildcard."""
    return re.sub(r"([*?\[])", r"[\1]", f"{folder}/")


@contextmanager
def open_tables(out: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A locked-down connection with a view a table over all captures of OUT, `capture` as first column.

    `out` may be one capture's folder as well. Raises BadInput when it holds no tables.
    """
    folder = out.resolve()
    if (folder / "tables" / "capture_files.parquet").is_file() and not captures_in(folder):
        folder = folder.parent
    if not captures_in(folder):
        raise BadInput("no capture's tables in it", where=str(out), todo="give the OUT of `leakpath run`")
    pattern = _pattern(folder)
    literal = "'" + pattern.replace("'", "''") + "'"
    settings = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    with tempfile.TemporaryDirectory(prefix="leakpath-query-") as spill:
        connection = duckdb.connect(config={**settings, "temp_directory": spill})
        try:
            for name in present_tables(folder):
                try:
                    connection.execute(view_sql(name, TABLES[name].columns, literal))
                except duckdb.Error as error:
                    todo = "run `leakpath run` again, it rewrites what is damaged"
                    raise BadInput(f"a damaged table: {str(error).splitlines()[0]}", where=name, todo=todo) from error
            if "pareto" in present_tables(folder):
                connection.execute(FRONT_VIEW)
            # DuckDB holds both the pattern and the files it finds against this list.
            connection.execute("SET allowed_directories = [?, ?]", [f"{folder}/", pattern])
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            yield connection
        finally:
            connection.close()


def ask(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.RecordBatchReader:
    """The answer to one SELECT, streamed. Raises BadInput for anything else and for what DuckDB refuses."""
    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise BadInput("only one SELECT is allowed", where="SQL", todo="see `leakpath tables` for what there is")
        return connection.sql(sql).to_arrow_reader(_BATCH_ROWS)
    except duckdb.Error as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        hint = next((f" ({line})" for line in lines[1:] if line.startswith(("Candidate", "Did you"))), "")
        raise BadInput(f"{lines[0]}{hint}", where="SQL", todo="see `leakpath tables` for what there is") from error


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The answer's batches; what goes wrong while it is computed is the question's fault, too."""
    try:
        yield from reader
    except (duckdb.Error, pa.ArrowInvalid, OSError) as error:
        raise BadInput(str(error).splitlines()[0], where="SQL", todo="correct the question") from error


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    text = f"{value:,.6g}" if isinstance(value, float) else str(value)
    text = printable(text.replace("\n", " ⏎ "))
    return text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…"


def write_table(reader: pa.RecordBatchReader, out: BinaryIO) -> None:
    """Aligned text for people: the first 1,000 rows, long cells cut, and how many rows there are."""
    names, count = reader.schema.names, 0
    shown: list[list[str]] = []
    for batch in _batches(reader):
        count += batch.num_rows
        if len(shown) < _SHOWN_ROWS:
            columns = [column.to_pylist() for column in batch.slice(0, _SHOWN_ROWS - len(shown)).columns]
            shown += [[_cell(value) for value in row] for row in zip(*columns, strict=True)]
    widths = [max(len(name), *(len(row[i]) for row in shown), 0) for i, name in enumerate(names)]
    is_number = [_is_number(kind) for kind in reader.schema.types]
    for row in [names, ["─" * width for width in widths], *shown]:
        cells = [c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, is_number, strict=True)]
        out.write(("  ".join(cells).rstrip() + "\n").encode())
    cut = f", the first {len(shown):,} shown" if count > len(shown) else ""
    out.write(f"({count:,} row{'s' * (count != 1)}{cut})\n".encode())


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_plain(kind: pa.DataType) -> bool:
    """Whether Arrow's CSV writer has a text for it."""
    text = pa.types.is_string(kind) or pa.types.is_boolean(kind)
    return bool(_is_number(kind) or text or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def write_csv(reader: pa.RecordBatchReader, out: BinaryIO) -> None:
    """CSV with a header; lists as JSON-like text, null as an empty field."""
    out.write((",".join('"' + name.replace('"', '""') + '"' for name in reader.schema.names) + "\n").encode())
    options = pacsv.WriteOptions(include_header=False)
    for batch in _batches(reader):
        plain = [
            column
            if _is_plain(column.type)
            else pa.array([None if v is None else str(v) for v in column.to_pylist()], pa.string())
            for column in batch.columns
        ]
        sink = io.BytesIO()
        pacsv.write_csv(pa.RecordBatch.from_arrays(plain, names=batch.schema.names), sink, options)
        out.write(sink.getvalue())


def write_json(reader: pa.RecordBatchReader, out: BinaryIO) -> None:
    """A JSON array of objects, one a row and line."""
    import orjson

    first = True
    for batch in _batches(reader):
        for row in batch.to_pylist():
            out.write(b"[\n" if first else b",\n")
            out.write(orjson.dumps(row, default=_plain))
            first = False
    out.write(b"[]\n" if first else b"\n]\n")


def _plain(value: object) -> object:
    """What JSON has no word for. `sum` of a BIGINT is a decimal in Arrow: a whole number stays one."""
    if isinstance(value, Decimal):
        if value != value.to_integral_value():
            return float(value)
        return int(value) if -(2**63) <= value < 2**64 else str(int(value))
    return value.hex() if isinstance(value, bytes) else str(value)


def write_parquet(reader: pa.RecordBatchReader, out: BinaryIO) -> None:
    """One Parquet file, zstd."""
    with pq.ParquetWriter(out, reader.schema, compression="zstd") as writer:
        for batch in _batches(reader):
            writer.write_batch(batch)


WRITERS: dict[str, Callable[[pa.RecordBatchReader, BinaryIO], None]] = {
    "table": write_table,
    "csv": write_csv,
    "json": write_json,
    "parquet": write_parquet,
}
"""Output formats of `leakpath query`."""


def query(out: Path, sql: str, output_format: str) -> None:
    """Answer one SELECT on stdout. Raises BadInput; Parquet to a terminal is refused."""
    if output_format == "parquet" and sys.stdout.isatty():
        raise BadInput("Parquet is no text", where="stdout", todo="send it to a file with >")
    with open_tables(out) as connection:
        WRITERS[output_format](ask(connection, sql), sys.stdout.buffer)
