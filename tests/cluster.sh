#!/usr/bin/env bash
# The manifests and the compose file against the program, and against schemas as far as they are at
# hand. The check run calls it as it is; `just cluster` fetches the schemas of Kubernetes before.
#
#   tests/cluster.sh [CRDS...]    files with custom resource definitions, such as the Prometheus
#                                 operator's monitoring.coreos.com_podmonitors.yaml and Agones' install.yaml
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

"$python" -c 'import yaml' 2>/dev/null || {
    echo "PyYAML is missing. Debian: apt-get install python3-yaml" >&2
    exit 1
}

cargo build --quiet --bin tidegate
tidegate=${CARGO_TARGET_DIR:-target}/debug/tidegate
"$python" tests/cluster.py "$tidegate" "$@"

# Debian's docker-compose needs no daemon for this; it is older than the top-level name.
if command -v docker-compose >/dev/null; then
    grep -v '^name:' docker/compose.yaml | docker-compose --project-directory docker --file - config --quiet
    echo "docker/compose.yaml has the shape of its schema"
else
    echo "the shape of docker/compose.yaml was not looked at: docker-compose is not installed"
fi
