#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manifests of share/k8s against the published schemas of Kubernetes. A kind of the MPI operator has no schema
there, so its pod templates are validated as pods. Every flag of lm-train in the manifests exists."""
import glob
import os
import sys

try:
    import kubernetes_validate
except ImportError:
    print("skipped: kubernetes-validate is not in .venv")
    sys.exit(77)
import yaml

import live

VERSION = "1.31"


def pods(manifest):
    """Yields the pod templates of a manifest."""
    spec = manifest["spec"]
    if "template" in spec:
        yield spec["template"]
    for replica in spec.get("mpiReplicaSpecs", {}).values():
        yield replica["template"]


def check(path, help_text):
    with open(path, encoding="utf-8") as file:
        manifest = yaml.safe_load(file)
    if "mpiReplicaSpecs" not in manifest["spec"]:
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    for template in pods(manifest):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": template["spec"]}
        kubernetes_validate.validate(pod, VERSION, strict=True)
        for container in template["spec"]["containers"]:
            for word in container.get("args", []):
                assert not word.startswith("--") or word.split("=")[0] in help_text, f"{path}: {word}"


def main():
    help_text = live.run(live.tool("lm-train"), "--help")
    paths = sorted(glob.glob(os.path.join(os.path.dirname(__file__), "../../share/k8s/*.yaml")))
    assert len(paths) == 2, paths
    for path in paths:
        check(path, help_text)
    # The check finds a fault.
    bad = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [{"nam": "x"}]}}
    try:
        kubernetes_validate.validate(bad, VERSION, strict=True)
    except kubernetes_validate.ValidationError:
        print(f"{len(paths)} manifests, Kubernetes {VERSION}")
        return
    raise AssertionError("a planted fault was not found")


main()
