#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manifests of examples/kubernetes, and those that `spotnik kubernetes` prints, against the published schemas: of Kubernetes 1.31 and 1.36
(kubernetes-validate), of JobSet and of Kubeflow Trainer (kubeflow-trainer-api). Claim: nothing in them is
unknown, misspelt or of the wrong type. A planted mistake is found. What was asked for by options stands in the printed
ones: pods, resources, Kueue's queue and least parallelism.

    schemas.py FOLDER SPOTNIK"""

import copy
import glob
import re
import subprocess
import sys

try:
    import kubeflow_trainer_api.models as trainer
    import kubernetes_validate
    import yaml
except ImportError as error:
    print(f"SKIPPED: {error}; make the environment with: dev/python.sh")
    sys.exit(77)

MODELS = {
    "JobSet": trainer.JobsetV1alpha2JobSet,
    "ClusterTrainingRuntime": trainer.TrainerV1alpha1ClusterTrainingRuntime,
    "TrainingRuntime": trainer.TrainerV1alpha1TrainingRuntime,
    "TrainJob": trainer.TrainerV1alpha1TrainJob,
}


WORD = 'a "b" $c $$ $$(d) $(POD_IP)'  # a program gets it so, whatever Kubernetes makes of "$$" and "$("


def pods(document):
    """Wherever a pod is described: the models of the trainer know less of pods than Kubernetes does."""
    if isinstance(document, dict):
        if "containers" in document:
            yield document
        for value in document.values():
            yield from pods(value)
    elif isinstance(document, list):
        for value in document:
            yield from pods(value)


def wrong(document):
    """What is wrong with it; None: nothing."""
    try:
        if document["apiVersion"] in ("v1", "batch/v1", "networking.k8s.io/v1"):
            for version in ("1.31", "1.36"):
                kubernetes_validate.validate(document, version, strict=True)
            return None
        model = MODELS[document["kind"]].from_dict(document)
        if model.to_dict() != document:
            return "the model does not know everything in it"
        for pod in pods(document):
            template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod}
            kubernetes_validate.validate(template, "1.36", strict=True)
        return None
    except Exception as error:  # the two packages have several kinds
        return str(error).splitlines()[0]


def check(name, document):
    """It fits, and a mistake in it would be found."""
    found = wrong(document)
    if found:
        sys.exit(f"FAILED: {name}: {document['kind']}: {found}")
    for pod in pods(copy.deepcopy(document)):
        assert pod["terminationGracePeriodSeconds"] <= 25, "Google and Azure kill after 30 s"
    planted = copy.deepcopy(document)
    for pod in pods(planted):
        pod["terminationGracePeriod"] = 25
        if not wrong(planted):
            sys.exit(f"FAILED: {name}: a misspelt field is not found")
        break


def policies(document):
    """What becomes of the job by a pod's exit code, wherever a policy stands."""
    if isinstance(document, dict):
        for rule in document.get("podFailurePolicy", {}).get("rules", []):
            yield from ((code, rule["action"]) for code in rule.get("onExitCodes", {}).get("values", []))
    for value in document.values() if isinstance(document, dict) else document if isinstance(document, list) else []:
        yield from policies(value)


def printed(*options):
    """The documents of a manifest that the command prints."""
    command = [sys.argv[2], "kubernetes", "--image", "registry.example/train:1", *options, "--", "python", WORD]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    documents = list(yaml.safe_load_all(text))
    for document in documents:
        check(" ".join(options), document)
    found = dict(one for document in documents for one in policies(document))
    assert found == {75: "Ignore", 74: "FailJob"}, found
    return documents


def expanded(word, env):
    """As the kubelet does it: "$$" is "$"; "$(NAME)" is a variable of the container, or stays."""
    return re.sub(r"\$\$|\$\((\w+)\)", lambda found: "$" if found[0] == "$$" else env.get(found[1], found[0]), word)


def command_of(document):
    container = next(pods(document))["containers"][0]
    env = {one["name"]: "told" for one in container["env"] if one["name"] != "JOBSET"}
    return [expanded(word, env) for word in container["command"] + container.get("args", [])]


def check_printed():
    """By its options."""
    _, job = printed("--pods", "2:8", "-w", "2", "--cpus", "8", "--memory", "64Gi", "--gpus", "1", "--spot", "--queue", "team")
    assert (job["spec"]["parallelism"], job["spec"]["completions"], job["spec"]["successPolicy"]["rules"]) == (8, 8, [{"succeededCount": 2}])
    notes = {key.split("/")[1]: value for key, value in {**job["metadata"]["labels"], **job["metadata"]["annotations"]}.items()}
    assert notes == {"queue-name": "team", "job-min-parallelism": "2", "job-completions-equal-parallelism": "true"}, notes
    words = command_of(job)
    assert words[:9] == ["spotnik", "run", "-n", "2", "--respawn", "--min", "4", "--peers", "dns://train-[0-1].train"], words
    assert words[-2:] == ["python", WORD], words
    worker = next(pods(job))["containers"][0]
    assert all("$POD_IP:21210,$POD_IP:21211 " in worker[kind]["exec"]["command"][2] for kind in ("startupProbe", "livenessProbe")), worker
    limits = worker["resources"]["limits"]
    assert limits == {"memory": "64Gi", "nvidia.com/gpu": "1"} and len(next(pods(job))["tolerations"]) == 2
    _, grouped = printed("--pods", "2", "--gpus", "8", "--group", "8")
    assert command_of(grouped)[:7] == ["spotnik", "run", "-n", "1", "--group", "8", "--respawn"], command_of(grouped)
    _, whole = printed("--pods", "4", "--queue", "team")
    assert "annotations" not in whole["metadata"], "Kueue refuses a least parallelism that is all"
    _, elastic = printed("--pods", "1:4", "--queue", "team", "--elastic", "--claim", "none", "--name", "other")
    assert elastic["metadata"]["annotations"] == {"kueue.x-k8s.io/elastic-job": "true"}
    assert len(next(pods(elastic))["volumes"]) == 1 and "dns://other-0.other" in command_of(elastic)
    for scheme in ("gs", "az", "s3"):
        _, kept = printed("--pods", "2", "--checkpoint", f"{scheme}://My.bucket/a_b/c")
        worker = next(pods(kept))["containers"][0]
        assert {"name": "SPOTNIK_CHECKPOINT", "value": f"{scheme}://My.bucket/a_b/c"} in worker["env"]
        assert len(next(pods(kept))["volumes"]) == 1
    assert worker["envFrom"] == [{"secretRef": {"name": "train-aws", "optional": True}}], worker
    (jobset,) = printed("--pods", "2:3", "--kind", "jobset")
    assert "dns://train-node-0-[0-1].train" in command_of(jobset)
    runtime, train = printed("--pods", "2:3", "--kind", "trainjob", "--queue", "team")
    assert runtime["spec"]["mlPolicy"]["numNodes"] == 3 and train["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    assert "dns://$(JOBSET)-node-0-[0-1].$(JOBSET)" in command_of(runtime) and command_of(runtime)[-2:] == ["python", WORD]


def check_policy(documents):
    """It lets the pods of the example reach each other where they listen, and stays in step with them."""
    policy, job = documents["NetworkPolicy"], documents["Job"]
    labels = {"matchLabels": job["spec"]["template"]["metadata"]["labels"]}
    ports = [port["containerPort"] for port in next(pods(job))["containers"][0]["ports"]]
    assert policy["spec"]["podSelector"] == labels, policy
    (rule,) = policy["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": labels}] and [port["port"] for port in rule["ports"]] == ports, rule


def main():
    count = 0
    found = {}
    for path in sorted(glob.glob(f"{sys.argv[1]}/*.yaml")):
        with open(path) as file:
            for document in yaml.safe_load_all(file):
                check(path, document)
                if document["metadata"]["name"] == "train":
                    found[document["kind"]] = document
                count += 1
    check_policy(found)
    print(f"{count} manifests fit the published schemas; a misspelt field was found in each that describes pods")
    check_printed()
    print("those that the command prints fit them, and have what was asked for")


main()
