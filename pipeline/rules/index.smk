# All captures of OUT together: one database of views and one page.
rule index:
    input:
        [of_all_captures(pattern) for pattern in outputs("ingest", "analyze")],
        html=of_all_captures("{capture}/report.html"),
        findings=of_all_captures("{capture}/findings.json"),
    output:
        database="leakpath.duckdb",
        page="index.html",
    log:
        ".leakpath/logs/index.log",
    threads: 1
    resources:
        mem_mb=1000,
    params:
        out=lambda wildcards, output: out_folder(output.page, "index.html"),
        code=CODE["report"],
    shell:
        "exec leakpath --events index {params.out} 2> {log}"
