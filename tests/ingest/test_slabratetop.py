"""slabratetop's tables: every row of the example page, screen codes, libbpf-tools' form, damage."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ingest.slabratetop import IMPORTER
from tests.ingest.support import check_importer
from tests.ingest.text_damage import check_cuts, check_encodings, check_flips, check_junk, data_loss, read_text, rows_of

DATA = Path(__file__).parents[1] / "data" / "bcc" / "slabratetop_example.txt"
COLUMNS = ("metric", "labels", "ts_ns", "value", "unit")
TABLE = "CACHE                            ALLOCS      BYTES\n"
ROW = "filp                                 12       2304\n"
TIME = "07:01:35 loadavg: 0.38 0.21 0.12 1/342 13297\n\n"


def test_the_table_of_the_example_page(tmp_path: Path) -> None:
    tables = check_importer(DATA, tmp_path, IMPORTER)
    text = DATA.read_text()
    expected = re.findall(r"^(\S+) {2,}(\d+) +(\d+)$", text, re.MULTILINE)
    assert len(expected) == 20
    rows = rows_of(tables, "metrics", COLUMNS)
    time = (7 * 3600 + 95) * 10**9
    assert rows[:3] == [(f"node_load{n}", None, time, load, None) for n, load in ((1, 0.38), (5, 0.21), (15, 0.12))]
    slabs = [(json.loads(row[1])["cache"], row[0], row[3], row[4], row[2]) for row in rows[3:]]
    assert slabs[::2] == [(c, "slab_allocations", float(n), "count", time) for c, n, _ in expected]
    assert slabs[1::2] == [(c, "slab_allocated_bytes", float(size), "bytes", time) for c, _, size in expected]
    assert data_loss(tables) == {}


def test_screens_and_tables_without_a_time(tmp_path: Path) -> None:
    text = "Tracing... Output every 1 secs. Hit Ctrl-C to end\n"
    text += ("\x1b[H\x1b[2J\x1b[3J" + TIME + TABLE + ROW + "my cache                              3         24\n") * 2
    text += "\n" + TABLE + ROW + "Detaching...\n"
    tables = read_text(text, tmp_path, IMPORTER)
    rows = rows_of(tables, "metrics", ("metric", "labels", "value"))
    assert rows.count(("slab_allocations", '{"cache":"filp"}', 12.0)) == 3
    assert rows.count(("slab_allocated_bytes", '{"cache":"my cache"}', 24.0)) == 2
    assert tables["metrics"]["ts_ns"].null_count() == 2  # the last table has no time of its own
    assert data_loss(tables) == {}


def test_damage(tmp_path: Path) -> None:
    check_encodings(DATA, tmp_path, IMPORTER)
    long = tmp_path / "long.txt"
    long.write_text("".join(TIME + TABLE + ROW * 20 + "\n" for _ in range(20)))
    check_cuts(long, tmp_path, IMPORTER, "metrics", COLUMNS)
    check_flips(long, tmp_path, IMPORTER, "metrics", COLUMNS, rows_a_line=40, seeds=range(10))
    tables = read_text(TABLE + ROW.replace("12", "1x") + ROW.replace("2304", "9" * 30) + "filp 3\n", tmp_path, IMPORTER)
    assert data_loss(tables) == {"damaged_rows": 2, "numbers_beyond_64_bits": 1}
    check_junk(TABLE.encode(), tmp_path, IMPORTER, lambda chance: chance.randbytes(30))
