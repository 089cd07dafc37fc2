"""Reports of one analysed capture: report.html, findings.json and flame graphs, all made from its tables."""
