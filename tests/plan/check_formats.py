#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the planner's output files against the systems' own schemas or parsers, as far as they are installed:
EC2 Fleet against botocore's service model, Kubernetes against its JSON schema (kubernetes-validate), SkyPilot against
its own task schema (skypilot), Slurm against bash. Usage: check_formats.py SPOTNIK. Exit 77: nothing to check with."""
import json
import subprocess
import sys

checked = []


def plan(fmt):
    command = [sys.argv[1], "plan", "--deadline", "6h", "--budget", "400", "--target", "epochs=90", "-o", fmt,
               "--", "python", "train.py", "--name", "it's \"quoted\": #1"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def ec2_fleet():
    import botocore.loaders
    import botocore.model
    import botocore.validate
    service = botocore.model.ServiceModel(botocore.loaders.Loader().load_service_model("ec2", "service-2"))
    shape = service.operation_model("CreateFleet").input_shape
    report = botocore.validate.ParamValidator().validate(json.loads(plan("ec2-fleet")), shape)
    assert not report.has_errors(), report.generate_report()


def kubernetes():
    import kubernetes_validate
    import yaml
    for document in yaml.safe_load_all(plan("kubernetes")):
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def skypilot():
    import yaml
    task = yaml.safe_load(plan("skypilot"))
    assert task["num_nodes"] >= 1 and task["resources"]["any_of"], task
    from sky.utils import schemas
    import jsonschema
    jsonschema.Draft7Validator(schemas.get_task_schema()).validate(task)
    jsonschema.Draft7Validator(schemas.get_resources_schema()).validate(task["resources"])


def slurm():
    subprocess.run(["bash", "-n"], input=plan("slurm"), text=True, check=True)


for check in (ec2_fleet, kubernetes, skypilot, slurm):
    try:
        check()
        checked.append(check.__name__)
        print("ok", check.__name__)
    except ImportError as missing:
        print("left out", check.__name__, "-", missing)
sys.exit(0 if checked else 77)
