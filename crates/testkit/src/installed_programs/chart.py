"""Renders a chart with Helm itself: a chart, a release's name and its namespace; values on the standard input.

Prints what Helm's linter says and the rendered files, or the error.
"""

import json
import sys

import helm_python as helm

chart, name, namespace = sys.argv[1:]
values = json.load(sys.stdin)
try:
    found = helm.lint(chart)
    with helm.Chart.load(chart) as loaded:
        files = loaded.render(values, name=name, namespace=namespace)
    lint = [it for it in found["messages"] + found["errors"] if not isinstance(it, dict) or it["severity"] > 1]
    print(json.dumps({"lint": lint, "files": files}))
except helm.HelmError as error:
    print(json.dumps({"error": str(error)}))
