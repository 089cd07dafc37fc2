"""`leakpath run`: captures to reports, all stages."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("captures", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="CAPTURE...")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the results.")
@click.option("--cores", type=click.IntRange(min=1), help="Cores to use.  [default: all]")
@click.option("--config", type=click.Path(path_type=Path), help="Settings, see docs/config.md.")
@click.option(
    "--profile",
    default="local",
    show_default=True,
    metavar="NAME",
    help="Where jobs run: local, slurm, kubernetes, or a folder with a Snakemake profile.",
)
@click.option("--prepare", is_flag=True, help="Only write OUT/.leakpath, to upload it for a profile with a bucket.")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON on stdout.")
@click.option("--quiet", "-q", is_flag=True, help="Errors only: no progress and no summary.")
def run(
    captures: tuple[Path, ...],
    out: Path,
    cores: int | None,
    config: Path | None,
    profile: str,
    prepare: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """From captures to reports: read, analyse, report, index.

    Each CAPTURE is a folder with the files of one run, or a single file. Started again with the same OUT it
    goes on where it stopped, and does again only what changed.
    """
    from pipeline.running import prepare_run, run_captures
    from pipeline.terminal import summary_json, summary_text
    from schemas.config import load_config

    if prepare:
        for name in prepare_run(captures, out, load_config(config)):
            click.echo(name)
        return
    result = run_captures(captures, out, load_config(config), cores=cores, profile=profile, quiet=quiet)
    if as_json:
        click.echo(summary_json(result))
    elif not quiet:
        click.echo(summary_text(result), nl=False)
    for name, job in result.failures.items():
        click.echo(f"leakpath: error: {name}: {job.stage}: {job.message}", err=True)
    raise SystemExit(result.exit_code)
