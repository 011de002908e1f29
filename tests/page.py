"""Opens the page of a running demo in headless Chromium, through chromedriver: on a desktop, on a
phone, without scripts, and after tidegate has gone.

    page.py TIDEGATE [FOLDER]    with a folder, leaves a picture of each there
"""

import base64
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

PLAYERS = 40
FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-quic
    --no-first-run --disable-background-networking --disable-component-update --disable-sync""".split()


def wait_for(what, condition, seconds=60):
    end = time.monotonic() + seconds
    last = None
    while time.monotonic() < end:
        try:
            last = condition()
        except OSError as error:
            last = error
        if last is True:
            return
        time.sleep(0.5)
    sys.exit(f"not within {seconds} s: {what}: {last}")


def said(log, pattern):
    """The group of this pattern in what a program writes of itself, once it has."""
    def found():
        return re.search(pattern, pathlib.Path(log.name).read_text())
    wait_for(pattern, lambda: found() is not None)
    return found()[1]


class Window:
    """A browser window of its own, by the WebDriver protocol."""

    def __init__(self, driver, width, height, scripts=True, dark=False):
        self.driver = driver
        options = {"args": FLAGS, "mobileEmulation": {
            "deviceMetrics": {"width": width, "height": height, "pixelRatio": 1}}}
        if not scripts:
            options["prefs"] = {"profile.managed_default_content_settings.javascript": 2}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self.send("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self.driver = f"{driver}/{answer['sessionId']}"
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.chrome("Emulation.setEmulatedMedia", features=[scheme])

    def send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.driver + path, data, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def chrome(self, command, **arguments):
        return self.send("POST", "/goog/cdp/execute", {"cmd": command, "params": arguments})

    def open(self, url):
        self.send("POST", "/url", {"url": url})

    def run(self, script):
        return self.send("POST", "/execute/sync", {"script": script, "args": []})

    def errors(self):
        log = self.send("POST", "/se/log", {"type": "browser"})
        return [line["message"] for line in log if line["level"] in ("SEVERE", "WARNING")]

    def picture(self, name):
        if folder:
            shot = self.chrome("Page.captureScreenshot", format="png", captureBeyondViewport=True)
            (folder / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        self.send("DELETE", "")


# The points of each curve, and the bars that stand above the line.
DRAWN = """return [[...document.querySelectorAll("polyline")].map(l => l.points.length),
    ["rtt-bars", "loss-bars"].map(id => [...document.getElementById(id).querySelectorAll("rect")]
        .filter(r => r.height.baseVal.value > 1).length)]"""
# Texts that do not fit where they are, and boxes that lie on each other.
CROWDED = """
const boxes = [...document.querySelectorAll(".box, .findings li")].filter(b => b.offsetParent);
const rects = boxes.map(b => b.getBoundingClientRect());
const apart = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
const cut = [...document.querySelectorAll(".figures b, .figures small, .key span, h2, .findings li")]
    .filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth).map(e => e.textContent);
const labels = [...document.querySelectorAll("svg")].flatMap(svg => {
    const texts = [...svg.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()]);
    return texts.flatMap(([a, ra], i) => texts.slice(i + 1).filter(([, rb]) => !apart(ra, rb)).map(([b]) => a + " on " + b));
});
return [...cut, ...labels, ...boxes.flatMap((a, i) => boxes.slice(i + 1)
    .filter((b, j) => !apart(rects[i], rects[i + 1 + j])).map(b => a.innerText + " on " + b.innerText))]"""
# What the page says of a network that is faster than its first bucket tells apart.
FAST = """
const curves = JSON.parse(at("curves").textContent);
curves.history.rtt_p50 = curves.history.rtt_p50.map(() => 0.0005);
curves.history.rtt_p95 = curves.history.rtt_p95.map(() => 0.001);
Object.assign(curves.rtt, { p50: 0.0005, p95: 0.001, p99: 0.0014 });
at("curves").textContent = JSON.stringify(curves);
paint();
const texts = id => [...at(id).querySelectorAll(".key span")].map(span => span.textContent).join(", ");
return ["rtt-chart", "rtt-bars"].map(texts)"""
FAST_SAYS = ["median under 1 ms, 95 % under 1 ms", "half under 1 ms, 95 % under 1 ms, 99 % below 1.4 ms, over 250 ms"]
# Peers in bad mode as the card, the curve and the listeners' rows say it, and from when the page is.
BAD = """
const shown = [document.querySelectorAll(".figures small")[1].textContent,
    document.querySelector("#peers-chart .key span").textContent,
    document.querySelector("#listeners td:nth-child(6)").textContent];
return [at("uptime").textContent, ...shown.map(text => Number(text.replace(/[^0-9]/g, '')))]"""
# How much wider than its box the table of peers is, once all are as long here as makes the longest text.
AGED = """
const table = document.getElementById("worst").closest("table");
const column = [...table.querySelectorAll("th")].findIndex(th => th.textContent === "age");
for (const row of document.querySelectorAll("#worst tr")) row.children[column].textContent = "23.9 h";
return table.parentElement.scrollWidth - table.parentElement.clientWidth"""
TEXT = "return document.getElementById('{}').textContent"
# Marks the session's id of the worst peer, as one does to copy it, and says what is marked.
MARK = "getSelection().selectAllChildren(document.querySelector('#worst tr td:nth-child(2)'));"
MARKED = "return getSelection().toString()"


def well_drawn(window):
    """True, or what is missing."""
    curves, bars = window.run(DRAWN)
    return len(curves) >= 9 and min(curves) >= 5 and min(bars) >= 1 or f"{curves} {bars}"


def desktop(driver, url):
    for name, dark in [("desktop", False), ("desktop-dark", True)]:
        window = Window(driver, 1280, 900, dark=dark)
        window.open(url)
        wait_for("curves", lambda: well_drawn(window))
        before = window.run(TEXT.format("figures"))
        wait_for("other figures", lambda: window.run(TEXT.format("figures")) != before)
        assert f"peers{PLAYERS}of" in before, before
        peers = window.run("return document.querySelectorAll('#worst tr td:nth-child(11)').length")
        assert 10 <= peers <= 50, f"{peers} worst peers"
        assert not (crowded := window.run(CROWDED)), crowded
        assert not (errors := window.errors()), errors
        window.picture(name)
        assert (says := window.run(FAST)) == FAST_SAYS, says
        assert (wider := window.run(AGED)) <= 0, f"the table of peers is {wider} px wider than its box"
        marked, up = window.run(MARK + MARKED), window.run(TEXT.format("uptime"))
        wait_for("a later page", lambda: window.run(TEXT.format("uptime")) != up)
        assert marked and window.run(MARKED) == marked, f"{marked} was marked, then {window.run(MARKED)}"
        window.close()


def storm(driver, url):
    """Peers get into bad mode in a storm and out of it after: all places say the same of each second."""
    window = Window(driver, 1280, 900)
    window.open(url)
    wait_for("curves", lambda: well_drawn(window))
    seen = {}

    def many_at_different_times():
        up, card, curve, row = window.run(BAD)
        assert card == curve == row, f"{card} peers in bad mode, {curve} and {row}, at {up}"
        seen[up] = card
        return len(set(seen.values())) >= 4 or seen
    wait_for("a storm", many_at_different_times)
    window.close()


def phone(driver, url):
    for width in [390, 320]:
        window = Window(driver, width, 844)
        window.open(url)
        wait_for("curves", lambda: well_drawn(window))
        wide = window.run("return document.documentElement.scrollWidth")
        assert wide <= width, f"the page is {wide} px wide on a phone of {width} px"
        assert not (crowded := window.run(CROWDED)), crowded
        assert not (errors := window.errors()), errors
        window.picture(f"phone-{width}")
        window.close()


def without_scripts(driver, url):
    window = Window(driver, 1280, 900, scripts=False)
    window.open(url)
    window.picture("without-scripts")
    assert f"peers{PLAYERS}of" in window.run(TEXT.format("figures"))
    assert not window.run("return document.querySelector('polyline')"), "scripts are on"
    shown = window.run("return document.getElementById('charts').offsetParent")
    assert shown is None, "empty charts"
    window.close()


def after_the_end(driver, url, demo):
    window = Window(driver, 1280, 900)
    window.open(url)
    wait_for("curves", lambda: well_drawn(window))
    demo.kill()
    wait_for("a word on it", lambda: "No answer" in window.run(TEXT.format("findings")))
    window.picture("after-the-end")
    window.close()


def main():
    # Ports are the kernel's choice: what was free a moment ago may be somebody else's now.
    args = ["demo", "--players", str(PLAYERS), "--rate", "10", "--for", "900s", "--admin", "127.0.0.1:0"]
    with tempfile.NamedTemporaryFile() as words, tempfile.NamedTemporaryFile() as log:
        demo = subprocess.Popen([program, *args], stdout=words, stderr=words)
        # In a group of its own, with the browsers it starts.
        chrome = subprocess.Popen(["chromedriver", "--port=0"], stdout=log, stderr=log, start_new_session=True)
        try:
            url = said(words, r"(http://.*/)\n")
            driver = "http://127.0.0.1:" + said(log, r"started successfully on port (\d+)")
            wait_for("chromedriver", lambda: urllib.request.urlopen(f"{driver}/status").status == 200)
            wait_for("the demo", lambda: urllib.request.urlopen(f"{url}readyz").status == 200)
            driver += "/session"
            desktop(driver, url)
            storm(driver, url)
            phone(driver, url)
            without_scripts(driver, url)
            after_the_end(driver, url, demo)
        finally:
            os.killpg(chrome.pid, signal.SIGKILL)
            demo.kill()
            for process in [demo, chrome]:
                process.wait()
    print("the page: curves, figures and tables on a desktop, on phones, without scripts; no error")


program = sys.argv[1]
folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
main()
