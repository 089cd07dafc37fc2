"""What the tests of stack-counting text formats share."""

from __future__ import annotations

from tests.ingest.text_damage import Tables


def paths_of(tables: Tables, table: str = "stack_samples") -> list[list[str]]:
    """Functions of each row's call path in file order, leaf first; a module follows its function after a space."""
    frames: dict[int, str] = {}
    paths: dict[int, list[int]] = {}
    if "frames" in tables:
        for frame, function, module in tables["frames"].select("frame_id", "function", "module").rows():
            frames[frame] = f"{function} {module}" if module else function
        paths = dict(tables["call_paths"].select("call_path_id", "frame_ids").rows())
    ids = tables[table].sort("event_index")["call_path_id"]
    return [[frames[frame] for frame in reversed(paths.get(path, []))] for path in ids]
