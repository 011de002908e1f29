"""Do the manifests and the compose file say what the program does, and do they have the shape that clusters accept?

    cluster.py TIDEGATE [CRDS...]

Checks the manifests against the program (its configuration check, its ports, its times) and against
each other. Where the package kubernetes-validate is installed (PyPI), also against the published
schemas of the oldest and newest Kubernetes there is; with files of custom resource definitions (of
the Prometheus operator, of Agones), custom resources against those.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

program, *crds = sys.argv[1:]
MANIFESTS = sorted(pathlib.Path("kubernetes").glob("*.yaml"))
OLDEST = "1.29"  # the first with native sidecars by default


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def pods(document):
    """The pod templates inside a document."""
    spec = document.get("spec", {})
    if document["kind"] == "Deployment":
        yield spec["template"]["spec"]
    elif document["kind"] == "Fleet":
        yield spec["template"]["spec"]["template"]["spec"]


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


def checked(text, environment):
    """The effective values of a configuration that `tidegate check` accepts."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "tidegate.toml").write_text(text)
        subprocess.run([program, "keygen", "--out", folder / "netcode.key"], check=True, capture_output=True)
        command = [program, "check", "--print", "--config", folder / "tidegate.toml"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(line.split("#")[0].strip().split(" = ", 1) for line in done.stdout.splitlines() if " = " in line)


def is_consistent(path):
    found = documents(path)
    for deployment in (d for d in found if d["kind"] == "Deployment"):
        rolls_out(deployment)
    maps = {d["metadata"]["name"]: d["data"]["tidegate.toml"] for d in found if d["kind"] == "ConfigMap"}
    for pod in (pod for document in found for pod in pods(document)):
        sidecar, = (c for c in pod["initContainers"] if c["name"] == "tidegate")
        assert sidecar["restartPolicy"] == "Always", "only then is it a sidecar"
        environment = {e["name"]: e.get("value", "192.0.2.1") for e in sidecar.get("env", [])}
        environment = {k: v.replace("$(HOST_IP)", environment.get("HOST_IP", "")) for k, v in environment.items()}
        volumes = {v["name"]: v for v in pod["volumes"]}
        mounts = {m["mountPath"]: volumes[m["name"]] for m in sidecar["volumeMounts"]}
        sources = mounts["/etc/tidegate"]["projected"]
        name, = (s["configMap"]["name"] for s in sources["sources"] if "configMap" in s)
        assert sources["defaultMode"] & 0o027 == 0, "tidegate refuses a key that others may read"
        assert "/run/tidegate" in mounts, "no place for the control socket"
        values = checked(maps[name], environment)
        ports = {p["name"]: p["containerPort"] for p in sidecar["ports"]}
        assert values["admin.listen"].strip('"').endswith(f":{ports['admin']}"), values["admin.listen"]
        bound = int(re.search(r":(\d+)\"", values["listener.game.bind"])[1])
        for document in found:
            for port in document["spec"]["template"]["spec"]["ports"] if document["kind"] == "Fleet" else []:
                assert port["container"] == "tidegate", "the port is opened on the game server"
                ports[port["name"]] = port["containerPort"]
        assert ports["game"] == bound, (ports, bound)
        assert sidecar["args"] == ["serve", "--config", "/etc/tidegate/tidegate.toml"]
        probes = {probe: sidecar[probe]["httpGet"] for probe in ["startupProbe", "livenessProbe", "readinessProbe"]}
        # A start that waits for the backend would wait for a container that waits for this start.
        assert [p["path"] for p in probes.values()] == ["/livez", "/livez", "/readyz"], probes
        assert all(p["port"] == "admin" for p in probes.values()), probes
        grace = seconds(values["drain.grace"].strip('"'))
        assert pod["terminationGracePeriodSeconds"] > grace + 5, "a drain is cut short"
        assert "cpu" not in sidecar["resources"]["limits"], "throttling is packet loss"
        fence = sidecar["securityContext"]
        assert fence["runAsUser"] == 65532 and fence["readOnlyRootFilesystem"], fence


def rolls_out(deployment):
    """A new pod beside the old ones waits for ever where a node's port can be had once."""
    containers = [c for pod in pods(deployment) for c in pod["initContainers"] + pod["containers"]]
    if any("hostPort" in port for c in containers for port in c.get("ports", [])):
        strategy = deployment["spec"].get("strategy", {}).get("rollingUpdate", {})
        assert strategy.get("maxSurge") == 0, "each node's host port is taken: no new pod can be scheduled"
        assert strategy.get("maxUnavailable", 0) != 0, "no old pod may go, and no new one can come"


def compose_is_consistent():
    """The compose file's commands are ones, its files are there, and it waits for a drain."""
    file = pathlib.Path("docker/compose.yaml")
    compose, = documents(file)
    ours = [service for service in compose["services"].values() if service["image"] == "tidegate"]
    assert len(ours) == 2, "serve and connect"
    for service in ours:
        # Arguments are read from left to right, so this gets to --help only past good ones.
        done = subprocess.run([program, *service["command"], "--help"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert seconds(compose["services"]["tidegate"]["stop_grace_period"]) > 30, "a drain is cut short"
    for service in compose["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            known = source in compose["volumes"] or (file.parent / source).exists()
            assert known, f"there is no {source}"


def strict(schema):
    """A structural schema that does not take what it does not know: a typing error is one."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: strict(part) for key, part in schema.items() if key not in ("description", "default")}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    return schema


def definitions():
    """The schemas of the custom resources, by API version and kind."""
    for crd in (d for path in crds for d in documents(pathlib.Path(path))):
        if crd["kind"] == "CustomResourceDefinition":
            for version in crd["spec"]["versions"]:
                kind = f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"]
                schema = strict(version["schema"]["openAPIV3Schema"])
                # The part that all objects share stands elsewhere.
                schema["properties"] |= {"apiVersion": {}, "kind": {}, "metadata": {}}
                yield kind, schema


def main():
    for path in MANIFESTS:
        is_consistent(path)
    compose_is_consistent()
    print(f"{len(MANIFESTS)} manifests and the compose file agree with the program")
    everything = [document for path in MANIFESTS for document in documents(path)]
    custom = {"monitoring.coreos.com", "agones.dev"}
    own = [d for d in everything if d["apiVersion"].split("/")[0] not in custom]
    try:
        import kubernetes_validate
    except ImportError:
        print("schemas not looked at: kubernetes-validate is not installed")
    else:
        for version in [OLDEST, kubernetes_validate.latest_version()]:
            for document in own:
                kubernetes_validate.validate(document, version, strict=True)
            print(f"{len(own)} documents have the shape of Kubernetes {version}")
    if crds:
        import jsonschema
        schemas = dict(definitions())
        for document in (d for d in everything if d not in own):
            jsonschema.validate(document, schemas[document["apiVersion"], document["kind"]])
            print(f"a {document['kind']} has the shape of its definition")


main()
