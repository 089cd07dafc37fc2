"""`leakpath compare`: two captures side by side, and a gate for CI."""

from __future__ import annotations

from pathlib import Path

import click

_PATH = click.Path(path_type=Path)


@click.command(short_help="Compare two captures; --gate for CI.")
@click.argument("baseline", type=_PATH, metavar="BASELINE")
@click.argument("candidate", type=_PATH, metavar="[CANDIDATE]", required=False)
@click.option("--out", type=_PATH, default=Path("leakpath-compare"), show_default=True, help="Folder for the results.")
@click.option("--gate", is_flag=True, help="Write gate.json as well, and answer with the gate's exit code.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on stdout, in place of the summary.")
@click.option("--config", type=_PATH, help="Settings, see docs/config.md.")
@click.option(
    "--save-baseline", type=_PATH, metavar="FILE", help="Only write BASELINE's summary to FILE, for later comparisons."
)
def compare(
    baseline: Path,
    candidate: Path | None,
    out: Path,
    gate: bool,
    as_json: bool,
    config: Path | None,
    save_baseline: Path | None,
) -> None:
    """Say whether CANDIDATE leaks more, needs more memory or is slower than BASELINE.

    Each is the folder of an analysed capture (OUT/<capture>), an OUT with one capture, or a summary file that
    --save-baseline wrote.

    Exit codes with --gate: 0 fine, 1 regressed or leaking, 2 could not be judged, 3 input that can't be used. What is
    not known never passes. Without --gate: 0, or 3.
    """
    from ingest.atomic import write_atomic
    from pipeline.compare import compare as compare_summaries
    from pipeline.compare_files import load_side, write_comparison
    from pipeline.compare_result import result_bytes, result_of
    from pipeline.compare_summary import encode
    from pipeline.compare_terminal import summary_text
    from schemas.config import load_config

    settings = load_config(config)
    if save_baseline is not None:
        if candidate is not None or gate:
            raise click.UsageError("--save-baseline takes one capture, and no --gate.")
        write_atomic(save_baseline, encode(load_side(baseline, settings)))
        click.echo(str(save_baseline))
        return
    if candidate is None:
        raise click.UsageError("Missing argument 'CANDIDATE'.")
    found = compare_summaries(load_side(baseline, settings), load_side(candidate, settings), settings.compare)
    result = result_of(found, settings.compare.gate_quantities)
    written = write_comparison(found, result, out, is_gate=gate)
    click.echo(result_bytes(result).decode() if as_json else summary_text(result, written), nl=False)
    if gate:
        raise SystemExit(found.exit_code)
