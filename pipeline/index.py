"""All captures of OUT together: a DuckDB file of views, and a page that lists them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ingest.atomic import output_error, write_atomic
from ingest.errors import BadInput
from schemas.tables import TABLES

DATABASE = "leakpath.duckdb"
PAGE = "index.html"

# DuckDB's default temp_directory is the database's own path with `.tmp` after it, and constant where a view
# is bound: so the views find OUT's tables wherever OUT has been moved to. With brackets around glob characters.
_OUT_FOLDER = r"""
CREATE MACRO out_folder() AS
  regexp_replace(regexp_replace(current_setting('temp_directory'), '[^/]*$', ''), '([*?\[])', '[\1]', 'g')
"""

FRONT_VIEW = """
CREATE VIEW pareto_front AS
  SELECT p.capture, p.configuration, p.request_count, p.p99_ns, p.requests_per_second, p.tokens_per_second,
    p.latency_score, p.throughput_score, NOT EXISTS (
      SELECT 1 FROM pareto AS o WHERE o.latency_score >= p.latency_score AND o.throughput_score >= p.throughput_score
        AND (o.latency_score > p.latency_score OR o.throughput_score > p.throughput_score)) AS is_on_front
  FROM pareto AS p WHERE p.latency_score IS NOT NULL AND p.throughput_score IS NOT NULL
"""
MAX_FRONT_ROWS = 50


def captures_in(out: Path) -> list[Path]:
    """Output folders of the captures in OUT that have tables, by name."""
    return sorted(
        folder
        for folder in (out.iterdir() if out.is_dir() else ())
        if not folder.name.startswith(".") and (folder / "tables" / "capture_files.parquet").is_file()
    )


def view_sql(table: str, columns: tuple[str, ...], pattern_sql: str) -> str:
    """CREATE VIEW of one table over all captures, with the capture's name as first column.

    `pattern_sql` is a constant SQL expression that yields the folder of OUT with a slash at its end, or ''.
    """
    names = ", ".join(f'"{name}"' for name in columns)
    return (
        f'CREATE VIEW "{table}" AS SELECT parse_path(filename)[-3] AS capture, {names} '
        f"FROM read_parquet({pattern_sql} || '[!.]*/tables/{table}.parquet', filename = true, union_by_name = true)"
    )


def present_tables(out: Path) -> list[str]:
    """Tables that at least one capture has, in declared order."""
    folders = captures_in(out)
    return [name for name in TABLES if any((folder / "tables" / f"{name}.parquet").is_file() for folder in folders)]


def _write_database(out: Path) -> None:
    path = out / DATABASE
    # The macro takes the folder from the database's own path, so the temporary one lies beside the final one.
    partial = out / f".{DATABASE}.{os.getpid()}.partial"
    partial.unlink(missing_ok=True)
    try:
        import duckdb

        connection = duckdb.connect(str(partial))
        try:
            connection.execute(_OUT_FOLDER)
            for name in present_tables(out):
                connection.execute(view_sql(name, TABLES[name].columns, "out_folder()"))
                grain = TABLES[name].grain.replace("'", "''")
                connection.execute(f"COMMENT ON VIEW \"{name}\" IS '{grain}'")
            if "pareto" in present_tables(out):
                connection.execute(FRONT_VIEW)
        finally:
            connection.close()
        partial.replace(path)
    except OSError as error:
        raise output_error(error, path) from error
    finally:
        partial.unlink(missing_ok=True)


def _front(out: Path) -> list[dict[str, Any]]:
    """Rows of `pareto_front` of all captures, those on the front first; none without a capture that could be judged."""
    import duckdb

    with duckdb.connect(str(out / DATABASE), read_only=True) as connection:
        if not connection.execute("SELECT 1 FROM duckdb_views() WHERE view_name = 'pareto_front'").fetchall():
            return []
        cursor = connection.execute(
            "SELECT * FROM pareto_front ORDER BY is_on_front DESC, latency_score DESC, throughput_score DESC, capture"
            f" LIMIT {MAX_FRONT_ROWS}"
        )
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]


def build_index(out: Path) -> list[dict[str, Any]]:
    """Write OUT/leakpath.duckdb and OUT/index.html over all captures in OUT; gives the page's rows.

    Raises BadInput when OUT holds no capture's tables, OutputError when it can't be written.
    """
    folders = captures_in(out)
    if not folders:
        raise BadInput(
            "no capture's tables in it", where=str(out), todo="run `leakpath run` or `leakpath ingest` first"
        )
    from pipeline.summary import summarise
    from reports.index_page import render_index

    _write_database(out)
    rows = [summarise(folder) for folder in folders]
    write_atomic(out / PAGE, render_index([row.to_dict() for row in rows], _front(out)))
    return [row.to_dict() for row in rows]
