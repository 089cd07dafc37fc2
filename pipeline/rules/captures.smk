# One capture: its files to raw tables on one clock, those to findings, those to a report.
rule ingest:
    input:
        capture_inputs,
        config=ancient(".leakpath/settings.json"),
    output:
        outputs("ingest"),
    log:
        ".leakpath/logs/{capture}.ingest.log",
    threads: 1
    resources:
        mem_mb=memory(1500, 4),
    params:
        root=capture_root,
        out=out,
        files=capture_digest,
        settings=INGEST_SETTINGS,
        code=CODE["data"],
    shell:
        "exec leakpath --events ingest {params.root} --name {wildcards.capture} --out {params.out}"
        " --config {input.config} 2> {log}"


rule analyze:
    input:
        outputs("ingest"),
        config=ancient(".leakpath/settings.json"),
    output:
        outputs("analyze"),
    log:
        ".leakpath/logs/{capture}.analyze.log",
    threads: 2
    resources:
        mem_mb=memory(1500, 8),
    params:
        out=out,
        settings=SETTINGS,
        code=CODE["data"],
    shell:
        "exec leakpath --events analyze {params.out}/{wildcards.capture} --config {input.config} 2> {log}"


rule report:
    input:
        outputs("ingest", "analyze"),
    output:
        html="{capture}/report.html",
        findings="{capture}/findings.json",
        flamegraphs=directory("{capture}/flamegraphs"),
    log:
        ".leakpath/logs/{capture}.report.log",
    threads: 1
    resources:
        mem_mb=memory(1500, 4),
    params:
        out=out,
        code=CODE["report"],
    shell:
        "exec leakpath --events report {params.out}/{wildcards.capture} 2> {log}"
