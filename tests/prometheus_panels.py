"""Panels over several instances: what each shows of series that a test wrote, as a file for
`promtool test rules`, which takes JSON for YAML.

    prometheus_panels.py DASHBOARD > FILE
"""

import json
import sys


def series(name, values, **labels):
    """A series, in Prometheus' notation of values."""
    matchers = ", ".join(f'{label}="{value}"' for label, value in labels.items())
    return {"series": f"{name}{{{matchers}}}", "values": values}


def busy(instance, listener, worker, share):
    """A worker that is busy for this share of its time: seconds of it each 15 s."""
    labels = {"instance": instance, "listener": listener, "worker": worker}
    return series("tidegate_worker_busy_seconds_total", f"0+{15 * share}x40", job="tidegate", **labels)


def peers(instance, listener, worker, number):
    labels = {"instance": instance, "listener": listener, "worker": worker}
    return series("tidegate_worker_peers", f"{number}x40", job="tidegate", **labels)


def target(name, up, draining):
    """A target, for as long as the test looks."""
    labels = {"job": "tidegate", "instance": "a", "backend": "game", "target": name}
    return [series("tidegate_backend_up", f"{up}x40", **labels),
            series("tidegate_backend_draining", f"{draining}x40", **labels)]


def states(**now):
    """Instances, and the state that each is in."""
    return [series("tidegate_state", f"{int(state == own)}x40", job="tidegate", instance=instance, state=state)
            for instance, own in now.items() for state in ["starting", "serving", "draining"]]


def twice(given):
    """Series that two Prometheus scraped, as one query over both sees them."""
    return [{**one, "series": one["series"].replace("{", f'{{replica="{replica}", ')}
            for one in given for replica in "ab"]


def died(instance):
    """An instance that served for two minutes, and that nobody has answered for since."""
    labels = {"job": "tidegate", "instance": instance}
    return [series("up", "1x8 0x32", **labels),
            *(series("tidegate_state", f"{int(state == 'serving')}x8 stale", state=state, **labels)
              for state in ["starting", "serving", "draining"])]


def memory(job, instance):
    """A process, which need not be ours."""
    return series("process_resident_memory_bytes", "1000x40", job=job, instance=instance)


# Somebody else's exporter, which is down.
OTHER = series("up", "0x40", job="node", instance="c:9100")


# That the rules of grafana/alerts.yaml are loaded, and one of them that fires.
RULES = series("tidegate:rules_loaded", "1x40")
FIRING = series("ALERTS", "1x40", alertname="TidegateDown", alertstate="firing", severity="critical")


# (panel, series, what it shows five minutes later: labels and value)
SCENES = [
    # Each of a worker's listeners has the busy time of the whole thread.
    ("Workers busy",
     [busy("a", "game", "0", 0.2), busy("a", "old", "0", 0.2), busy("a", "game", "1", 0.4),
      busy("b", "game", "0", 0.6), busy("b", "game", "1", 0.4)],
     [('{instance="a", worker="0"}', 0.2), ('{instance="a", worker="1"}', 0.4),
      ('{instance="b", worker="0"}', 0.6), ('{instance="b", worker="1"}', 0.4)]),
    ("Peers per worker",
     [peers("a", "game", "0", 30), peers("a", "old", "0", 5), peers("b", "game", "0", 70)],
     [('{instance="a", worker="0"}', 35), ('{instance="b", worker="0"}', 70)]),
    ("State", states(a="serving", b="serving"), [("{}", 0)]),
    ("State", states(a="serving", b="draining"), [("{}", 1)]),
    ("State", states(a="serving", b="draining", c="starting"), [("{}", 2)]),
    ("State", states(a="serving") + died("b"), [("{}", 3)]),
    ("State", states(a="serving") + [OTHER], [("{}", 0)]),
    ("State", twice(states(a="serving", b="starting")), [("{}", 2)]),
    ("Memory", [memory("tidegate", "a"), memory("node", "c:9100")],
     [('process_resident_memory_bytes{instance="a", job="tidegate"}', 1000)]),
    ("Targets", twice(target("one", 1, 0)), [('{instance="a", backend="game", target="one"}', 1)]),
    ("Backends up", target("one", 1, 0) + target("two", 0, 0) + target("three", 0, 1), [("{}", 0.5)]),
    # That all are drained is known; that there is no figure of any is not the same.
    ("Backends up", target("one", 1, 1) + target("two", 0, 1), [("{}", -1)]),
    ("Backends up", [OTHER], []),
    ("Alerts", [RULES], []),
    ("Alerts", [RULES, FIRING], [('ALERTS{alertname="TidegateDown", alertstate="firing", severity="critical"}', 1)]),
    ("Alerts", [], [('{alertname="grafana/alerts.yaml is not loaded", severity="critical"}', 1)]),
]


def queries():
    """The first query of each panel, with everything selected: of a variable without a pattern for that, each value that
    there is. For jobs, that is ours."""
    with open(sys.argv[1]) as file:
        dashboard = json.load(file)
    variables = {variable["name"]: variable.get("allValue") or "tidegate"
                 for variable in dashboard["templating"]["list"]}
    for panel in dashboard["panels"]:
        for target in panel.get("targets", [])[:1]:
            query = target["expr"].replace("$__rate_interval", "1m")
            for variable, all_of_them in variables.items():
                query = query.replace(f"${variable}", all_of_them)
            yield panel["title"], query


def test(panel, given, expected):
    samples = [{"labels": labels, "value": value} for labels, value in expected]
    shown = {"expr": dict(queries())[panel], "eval_time": "5m", "exp_samples": samples}
    return {"name": panel, "interval": "15s", "input_series": given, "promql_expr_test": [shown]}


json.dump({"tests": [test(*scene) for scene in SCENES]}, sys.stdout, indent=1)
