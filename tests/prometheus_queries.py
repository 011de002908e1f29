"""Asks a Prometheus that scrapes the page's example: is the target up, do all rules load, does each
query of the dashboard have an answer? Called by prometheus.sh."""

import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

server, dashboard = sys.argv[1:]

# In the example these do not happen, so their panels are rightly empty.
QUIET = {
    "Connections": 1,  # no target drains
    "Connects and failures": 1,  # no check fails
    "Messages dropped": 1,  # no protocol drops
}


def ask(path, **arguments):
    url = f"http://{server}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)["data"]


def wait_for(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except OSError:
            pass
        if time.monotonic() > end:
            sys.exit(f"not within {seconds} s: {what}")
        time.sleep(0.5)


def value(query):
    try:
        return ask("query", query=query)["result"]
    except urllib.error.HTTPError as error:
        sys.exit(f"{query}: {error.read().decode()}")


wait_for("a scrape", lambda: value('up{job="tidegate"} == 1'))
wait_for("ten seconds of samples", lambda: value("count_over_time(tidegate_peers[1m]) > 12"))

rules = [rule for group in ask("rules")["groups"] for rule in group["rules"]]
broken = [rule["name"] for rule in rules if rule["health"] == "err"]
if broken or not rules:
    sys.exit(f"rules that Prometheus cannot evaluate: {broken}")

missing = []
count = 0
with open(dashboard) as file:
    panels = json.load(file)["panels"]
for panel in panels:
    empty = 0
    for target in panel.get("targets", []):
        query = target["expr"].replace("$__rate_interval", "10s")
        for variable in ["job", "instance", "listener", "backend"]:
            query = query.replace(f"${variable}", ".+")
        count += 1
        empty += not value(query)
    if empty > QUIET.get(panel["title"], 0):
        missing.append(panel["title"])
if missing:
    sys.exit(f"panels without an answer: {missing}")

series = len(ask("series", **{"match[]": '{job="tidegate"}'}))
if not 300 < series < 510:
    sys.exit(f"{series} series")
print(f"{len(rules)} rules and {count} dashboard queries have answers; {series} series")
