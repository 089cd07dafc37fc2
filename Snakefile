# The workflow of `leakpath run`: a few coarse jobs a capture, each one console command, all paths relative.
# `leakpath run` writes the configuration (.leakpath/run.json); without one there is nothing to do.
from snakemake.utils import min_version

min_version("9.5")


container: config.get("container", "docker://leakpath")


include: "pipeline/rules/common.smk"
include: "pipeline/rules/captures.smk"
include: "pipeline/rules/index.smk"


localrules:
    all,


rule all:
    default_target: True
    input:
        of_all_captures("{capture}/report.html"),
        index_files(),
