# All captures of OUT together: one database of views and one page.
rule index:
    input:
        reports(),
        findings=[f"{name}/findings.json" for name in CAPTURES],
    output:
        "leakpath.duckdb",
        "index.html",
    log:
        ".leakpath/logs/index.log",
    threads: 1
    resources:
        mem_mb=1000,
    params:
        code=CODE["report"],
    shell:
        "exec leakpath --events index . 2> {log}"
