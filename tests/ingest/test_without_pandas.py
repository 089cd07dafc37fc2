"""Reading a capture never imports pandas, which PyArrow would do where it is installed."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import ingest.writer
import pyarrow as pa
assert pa.array(["a", None]).null_count == 1
assert pa.array([1.5]).type == pa.float64()
assert "pandas" not in sys.modules
assert not [finder for finder in sys.meta_path if type(finder).__module__ == "ingest.without_pandas"]
"""


def test_pandas_stays_out() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
