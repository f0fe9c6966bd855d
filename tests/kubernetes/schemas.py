#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manifests of examples/kubernetes against the published schemas: of Kubernetes 1.31 and 1.36 (kubernetes-validate), of JobSet and of
Kubeflow Trainer (kubeflow-trainer-api). Claim: nothing in them is unknown, misspelt or of the wrong type. A planted mistake is found.

    schemas.py FOLDER"""
import copy
import glob
import sys

try:
    import kubeflow_trainer_api.models as trainer
    import kubernetes_validate
    import yaml
except ImportError as error:
    print(f"SKIPPED: {error}; make the environment with: dev/python.sh")
    sys.exit(77)

MODELS = {"JobSet": trainer.JobsetV1alpha2JobSet, "ClusterTrainingRuntime": trainer.TrainerV1alpha1ClusterTrainingRuntime,
          "TrainJob": trainer.TrainerV1alpha1TrainJob}


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
        if document["apiVersion"] in ("v1", "batch/v1"):
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


def main():
    count = 0
    for path in sorted(glob.glob(f"{sys.argv[1]}/*.yaml")):
        with open(path) as file:
            for document in yaml.safe_load_all(file):
                found = wrong(document)
                if found:
                    sys.exit(f"FAILED: {path}: {document['kind']}: {found}")
                count += 1
                for pod in pods(copy.deepcopy(document)):
                    assert pod["terminationGracePeriodSeconds"] <= 25, "Google and Azure kill after 30 s"
                planted = copy.deepcopy(document)
                for pod in pods(planted):
                    pod["terminationGracePeriod"] = 25
                    if not wrong(planted):
                        sys.exit(f"FAILED: {path}: a misspelt field is not found")
                    break
    print(f"{count} manifests fit the published schemas; a misspelt field was found in each that describes pods")


main()
