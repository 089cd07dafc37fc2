# One capture: its files to raw tables on one clock, those to findings, those to a report.
rule ingest:
    input:
        capture_inputs,
    output:
        tables("ingest"),
    log:
        ".leakpath/logs/{capture}.ingest.log",
    params:
        files=capture_digest,
        code=CODE["data"],
    threads: 1
    resources:
        mem_mb=memory(1500, 4),
    shell:
        "exec leakpath --events ingest .leakpath/inputs/{wildcards.capture} --name {wildcards.capture} --out ."
        " 2> {log}"


rule analyze:
    input:
        tables("ingest"),
        config=ancient(".leakpath/settings.json"),
    output:
        tables("analyze"),
    log:
        ".leakpath/logs/{capture}.analyze.log",
    params:
        settings=SETTINGS,
        code=CODE["data"],
    threads: 2
    resources:
        mem_mb=memory(1500, 8),
    shell:
        "exec leakpath --events analyze {wildcards.capture} --config {input.config} 2> {log}"


rule report:
    input:
        tables("ingest"),
        tables("analyze"),
    output:
        html="{capture}/report.html",
        findings="{capture}/findings.json",
        flamegraphs=directory("{capture}/flamegraphs"),
    log:
        ".leakpath/logs/{capture}.report.log",
    params:
        code=CODE["report"],
    threads: 1
    resources:
        mem_mb=memory(1500, 4),
    shell:
        "exec leakpath --events report {wildcards.capture} 2> {log}"
