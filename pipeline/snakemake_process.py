"""Snakemake as a child of `leakpath run`: ends with it, and is otherwise the `snakemake` command."""

from __future__ import annotations

import sys

from pipeline.lifeline import hold_lifeline


def main() -> None:
    """Run Snakemake with this process's arguments."""
    hold_lifeline()
    from snakemake.cli import main as snakemake

    snakemake(sys.argv[1:])


if __name__ == "__main__":
    main()
