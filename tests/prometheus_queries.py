"""Asks the Prometheus of prometheus.sh everything that the dashboard and the alerts ask. Two
instances are scraped: the demo, and a `tidegate serve` with callers who come and go.

    prometheus_queries.py SERVER DASHBOARD healthy    each query has an answer, of a credible size
    prometheus_queries.py SERVER DASHBOARD no-backend the backend of `serve` was killed: who says so?
"""

import json
import math
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

SERVER, DASHBOARD, ACT = sys.argv[1:]

# What has no answer while all is well, however it is asked. All other queries have one, once what
# they compare with a limit is asked without the limit.
SILENT_WHEN_WELL = {
    "TidegateAbsent": "there are targets, so nothing is absent",
    "TidegateNobodyGetsIn": "it compares with the hour before, and this scene takes a minute",
    "TidegateRestartedWithPlayers": "it compares with two minutes before, likewise",
    "TidegateBackendSilent": "it looks at the ten minutes until one minute before, likewise",
    "TidegateMemoryAlmostUsed": "there may be no memory limit around this test",
    "Memory of the limit": "likewise",
    "Alerts": "no alert fires",
}

# What figures can be in this scene, in the panel's unit: wrong units and wrong sums do not pass.
CREDIBLE = {
    "State": (0, 0),
    "Slots used": (0.005, 1),
    "Backends up": (1, 1),
    "RTT, 95 %": (0.005, 2),
    "RTT": (0, 2),
    "Peers in bad mode": (0, 1),
    "Forwarding, 99 %": (0.00001, 1),
    "Loss, 95 %": (0, 0.9),
    "Jitter, 95 %": (0, 1),
    "Session length, median": (0.1, 60),
    "Messages sent again": (0, 3),
    "Datagrams per system call": (0.2, 1024),
    "Workers busy": (0, 1.2),
    "Descriptors": (0.0001, 1),
    "CPU": (0.001, 64),
    "Memory": (4 << 20, 1 << 30),
    "Memory of the limit": (0.00001, 1),
}


def ask(path, **arguments):
    url = f"http://{SERVER}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]


def values(query):
    """The figures a query has for an answer; the nothings of a quantile without samples are none."""
    try:
        answer = ask("query", query=query)
    except urllib.error.HTTPError as error:
        sys.exit(f"{query}: {error.read().decode()}")
    samples = [answer] if answer["resultType"] == "scalar" else answer["result"]
    figures = (float(s["value"][1]) if isinstance(s, dict) else float(s[1]) for s in samples)
    return [figure for figure in figures if math.isfinite(figure)]


def wait_for(what, condition, seconds):
    """`condition` says what is still missing."""
    end = time.monotonic() + seconds
    while True:
        try:
            missing = condition()
        except OSError as error:
            missing = error
        if not missing:
            return
        if time.monotonic() > end:
            sys.exit(f"not within {seconds} s: {what}: {missing}")
        time.sleep(1)


def unconditional(query):
    """The same query with its comparisons made into 0 and 1: quiet and broken must not look alike."""
    return re.sub(r" (>|<|==|!=) (?!bool)", r" \1 bool ", query)


def panels():
    """(title, query) of everything on the dashboard, collapsed rows included."""
    with open(DASHBOARD) as file:
        listed = json.load(file)["panels"]
    for panel in [inner for panel in listed for inner in [panel, *panel.get("panels", [])]]:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$__rate_interval", "15s").replace("$__range", "5m")
            for variable in ["job", "instance", "listener", "backend"]:
                query = query.replace(f"${variable}", ".+")
            yield panel["title"], query


def rules():
    return [rule for group in ask("rules")["groups"] for rule in group["rules"]]


def firing():
    return sorted(a["labels"]["alertname"] for a in ask("alerts")["alerts"] if a["state"] == "firing")


def healthy():
    wait_for("two targets", lambda: sum(values('up{job="tidegate"}')) != 2 and ask("targets"), 60)
    wait_for("rules", lambda: [r["name"] for r in rules() if r["health"] != "ok"] or not rules(), 60)
    queries = list(panels())

    def unanswered():
        asked = queries + [(rule["name"], rule["query"]) for rule in rules()]
        quiet = [f"{name}: {query}" for name, query in asked
                 if name not in SILENT_WHEN_WELL and not values(unconditional(query))]
        return "\n  ".join(["", *quiet]) if quiet else None

    names = {title for title, _ in queries} | {rule["name"] for rule in rules()}
    if unknown := (CREDIBLE.keys() | SILENT_WHEN_WELL.keys()) - names:
        sys.exit(f"no such panels or alerts: {unknown}")

    # Not at once: a start is not the normal state of anything. A wrong unit stays wrong.
    def incredible():
        wild = []
        for title, query in queries:
            low, high = CREDIBLE.get(title, (0, 1e12))
            odd = [value for value in values(query) if not low <= value <= high]
            wild += [f"{title}: {odd} is not within {low} and {high}: {query}"] if odd else []
        return "\n  ".join(["", *wild]) if wild else None

    wait_for("an answer to each query", unanswered, 60)
    wait_for("figures that can be", incredible, 60)
    if firing():
        sys.exit(f"all is well, and yet: {firing()}")
    for instance in ask("label/instance/values"):
        series = len(ask("series", **{"match[]": f'{{job="tidegate",instance="{instance}"}}'}))
        if not 150 < series < 500:
            sys.exit(f"{series} series of {instance}")
        print(f"{instance}: {series} series")
    filled = sum(bool(values(query)) for _, query in queries)
    print(f"{len(rules())} alerts and {len(queries)} queries of the dashboard have answers;", end=" ")
    print(f"{len(queries) - filled} show nothing because nothing of theirs happens")


def no_backend():
    wait_for("TidegateNoBackend", lambda: "TidegateNoBackend" not in firing() and ["firing:", *firing()], 90)

    def unseen():
        signs = {
            "failures": 'sum(rate(tidegate_backend_connect_failures_total{reason="refused"}[1m])) > 0',
            "ends": 'sum(increase(tidegate_peer_disconnects_total{reason=~"backend_.*"}[2m])) > 0',
            "alerts on the dashboard": dict(panels())["Alerts"],
        }
        return [sign for sign, query in signs.items() if not values(query)]

    wait_for("signs of a lost backend", unseen, 30)
    print("a lost backend is an alarm, with its reasons")


{"healthy": healthy, "no-backend": no_backend}[ACT]()
