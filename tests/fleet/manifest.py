#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes manifest of a fleet against Kubernetes' own schemas, which kubernetes-validate brings, and against what
the tool's commands take: manifest.py MANIFEST GPUWIRE. `manifest.py --self MANIFEST` shows that mistakes are found."""
import copy
import re
import subprocess
import sys

import kubernetes_validate
import yaml

VERSIONS = ("1.25", kubernetes_validate.latest_version())


def schema_faults(objects):
    """What the schemas refuse, with fields that they do not know."""
    faults = []
    for o in objects:
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(o, version, strict=True)
            except kubernetes_validate.ValidationError as e:
                faults.append(f"{o.get('kind')} {o.get('metadata', {}).get('name')}: Kubernetes {version}: {e.message}")
    return faults


def pods(objects):
    return [(o, o["spec"]["template"]) for o in objects if "template" in o.get("spec", {})]


def labels_fit(selector, labels):
    return selector.items() <= labels.items()


def link_faults(objects):
    """Selectors find pods, mounts have volumes, probes and services name ports, and no name is there twice."""
    faults = []
    names = [(o["kind"], o["metadata"]["name"]) for o in objects]
    faults += [f"{k} {n}: twice" for k, n in set(names) if names.count((k, n)) > 1]
    all_labels = [t["metadata"]["labels"] for _, t in pods(objects)]
    for o in objects:
        selector = o["spec"].get("selector", {})
        selector = selector.get("matchLabels", selector)
        if sum(labels_fit(selector, labels) for labels in all_labels) != 1:
            faults.append(f"{o['kind']} {o['metadata']['name']}: its selector means not one kind of pod")
        if o["kind"] == "StatefulSet" and ("Service", o["spec"]["serviceName"]) not in names:
            faults.append(f"{o['metadata']['name']}: no service {o['spec']['serviceName']}")
    for o, template in pods(objects):
        volumes = {v["name"] for v in template["spec"].get("volumes", [])}
        for c in template["spec"]["containers"]:
            ports = {p["name"] for p in c.get("ports", [])}
            faults += [f"{c['name']}: no volume {m['name']}" for m in c.get("volumeMounts", []) if m["name"] not in volumes]
            for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
                action = c.get(probe, {}).get("httpGet") or c.get(probe, {}).get("tcpSocket")
                if action and action["port"] not in ports:
                    faults.append(f"{c['name']}: {probe}: no port {action['port']}")
            grace = int(template["spec"].get("terminationGracePeriodSeconds", 30))
            args = c["args"]
            if "--drain-seconds" in args and int(args[args.index("--drain-seconds") + 1]) >= grace:
                faults.append(f"{o['metadata']['name']}: the pod is killed before it has drained")
    return faults


def option_faults(objects, gpuwire):
    """Each option is one that the command's --help names. A build may lack a command, or its part of a fleet."""
    faults = []
    for _, template in pods(objects):
        for c in template["spec"]["containers"]:
            command = c["command"][1]
            done = subprocess.run([gpuwire, command, "--help"], capture_output=True, text=True, timeout=60, check=False)
            if done.returncode:
                print(f"this build has no `gpuwire {command}`: its options are not looked at")
                continue
            known = set(re.findall(r"--[a-z][\w-]*", done.stdout))
            if c["args"][0] not in known: # nor has a build without gRPC an etcd
                print(f"the `gpuwire {command}` of this build has no {c['args'][0]}: its options are not looked at")
                continue
            faults += [f"gpuwire {command} has no {a}" for a in c["args"] if a.startswith("--") and a not in known]
    return faults


def self_test(objects):
    def spoiled(change):
        all_of_it = copy.deepcopy(objects)
        change({o["kind"]: o for o in all_of_it})
        return schema_faults(all_of_it) + link_faults(all_of_it)

    def mount(kinds):
        kinds["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["name"] = "other"

    changes = {
        "a field that there is not": lambda k: k["StatefulSet"]["spec"].update(replica=2),
        "a text in the place of a number": lambda k: k["Deployment"]["spec"].update(replicas="two"),
        "a missing selector": lambda k: k["DaemonSet"]["spec"].pop("selector"),
        "a selector of nothing": lambda k: k["Service"]["spec"].update(selector={"app": "other"}),
        "a mount without a volume": mount,
        "a service that there is not": lambda k: k["StatefulSet"]["spec"].update(serviceName="other"),
    }
    return [f"not found: {what}" for what, change in changes.items() if not spoiled(change)]


def main():
    if sys.argv[1] == "--self":
        with open(sys.argv[2], encoding="utf-8") as f:
            faults = self_test(list(yaml.safe_load_all(f)))
    else:
        with open(sys.argv[1], encoding="utf-8") as f:
            objects = list(yaml.safe_load_all(f))
        kinds = [o["kind"] for o in objects]
        faults = [f"no {kind}" for kind in ("StatefulSet", "DaemonSet", "Deployment", "Service") if kind not in kinds]
        faults += schema_faults(objects) + link_faults(objects) + option_faults(objects, sys.argv[2])
    print("\n".join(faults))
    return bool(faults)


sys.exit(main())
