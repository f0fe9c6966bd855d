#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the planner's output files against the systems' own schemas or parsers, as far as they are installed:
EC2 Fleet against botocore's service model, Kubernetes against its JSON schema (kubernetes-validate), SkyPilot against
its own task schema (skypilot), Slurm against bash. Names with quotes and line ends stay what they are. What SkyPilot is to run is run, as on
two nodes of two GPUs: two members of two processes meet (tests/slurm/planned.py and tests/kubernetes/pods.py start the others).
Usage: check_formats.py SPOTNIK GROUP_WORKER. Exit 77: nothing to check with."""
import json
import os
import re
import subprocess
import sys
import tempfile

checked = []


NAME = "it's \"quoted\": #1\n$(touch planted)\n#SBATCH --nodes=99"
PROFILE = {"name": NAME, "devices": {"V100": {"samples_per_s": 300}}, "batches": [1024], "samples_per_epoch": 1e6, "gradient_mb": 10}


def plan(fmt, *run):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(PROFILE, file)
        file.flush()
        command = [sys.argv[1], "plan", "--prices", "builtin", "--type", "p3.2xlarge", "--machines", "2", "--deadline", "6h", "--target", "epochs=9",
                   "--profile", file.name, "-o", fmt, "--", *(run or ("python", "train.py", "--name", NAME))]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def started():
    """SkyPilot's variables, and what its task runs: two nodes of two GPUs are two members of two processes."""
    script = json.loads(plan("skypilot", os.path.abspath(sys.argv[2]), "30000", "1000").splitlines()[-1].removeprefix("run: "))
    with tempfile.TemporaryDirectory(prefix="spotnik-plan-") as folder:
        os.symlink(os.path.abspath(sys.argv[1]), f"{folder}/spotnik")
        key = subprocess.run([sys.argv[1], "key"], check=True, capture_output=True, text=True).stdout.strip()
        nodes = []
        for rank in range(2):
            os.mkdir(f"{folder}/{rank}")
            env = {**os.environ, "HOME": f"{folder}/{rank}", "PATH": f"{folder}:{os.environ['PATH']}", "SPOTNIK_KEY": key,
                   "SKYPILOT_TASK_ID": f"plan-{os.getpid()}", "SKYPILOT_NODE_IPS": "127.0.0.2\n127.0.0.3", "SKYPILOT_NODE_RANK": str(rank),
                   "SKYPILOT_NUM_NODES": "2", "SKYPILOT_NUM_GPUS_PER_NODE": "2", "GROUP_EVENTS": f"{folder}/{rank}/events"}
            open(env["GROUP_EVENTS"], "w").close()
            nodes.append(subprocess.Popen(["bash", "-c", script.replace("/checkpoints/", f"{folder}/checkpoints-")], env=env, text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        said = [node.communicate(timeout=60)[0] for node in nodes]
        assert [node.returncode for node in nodes] == [0, 0], said
        for rank in range(2):
            with open(f"{folder}/{rank}/events") as file:
                words = [line.split() for line in file]
            assert len({word[2] for word in words if word[0] == "process"}) == 2, words[:4]
            assert [word[2] for word in words if word[0] == "end"] == ["30000"], words[-1]
            # Not the last: a member tells of it when the job is done, and the other one may have left by then.
            assert [word[5] for word in words if word[0] == "commit"][-2] == "2", words[-3:]
        assert os.listdir(f"{folder}/checkpoints-plan-{os.getpid()}"), "no checkpoint"


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
    word = "a $$ $(POD_IP)"  # the kubelet reads "$$" as "$", and "$(POD_IP)" as a variable
    for document in yaml.safe_load_all(plan("kubernetes", "printf", "%s", word)):
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    command = document["spec"]["template"]["spec"]["containers"][0]["command"][-1]
    command = re.sub(r"\$\$|\$\(POD_IP\)", lambda found: "$" if found[0] == "$$" else "10.0.0.1", command)
    said = subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True).stdout
    assert said == word, said


def skypilot():
    import yaml
    task = yaml.safe_load(plan("skypilot"))
    assert task["num_nodes"] >= 1 and task["resources"]["any_of"], task
    from sky.utils import schemas
    import jsonschema
    jsonschema.Draft7Validator(schemas.get_task_schema()).validate(task)
    jsonschema.Draft7Validator(schemas.get_resources_schema()).validate(task["resources"])


def slurm():
    text = plan("slurm")
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    head = text.split("\n[ -e")[0].splitlines()
    assert not any("99" in line for line in head if line.startswith("#SBATCH")), text
    said = subprocess.run(["bash", "-c", "srun() { printf '%s\\0' \"$@\"; }; spotnik() { :; }; " + text], capture_output=True, text=True)
    assert said.stdout.split("\0")[-2] == NAME and not os.path.exists("planted"), said


def many():
    """The GPUs of a machine are one member, a group of processes. 48 machines of eight are 48 members."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("job.json", json.dumps({"name": "many", "devices": {"A100": {"samples_per_s": 100}}, "batches": [65536], "samples_per_epoch": 1e6,
                                                    "gradient_mb": 1})),
                           ("prices.csv", "instance_type,region,accelerator,accelerator_count,vcpus,on_demand_usd_per_h\nbig,here,A100,8,96,1\n")):
            with open(f"{folder}/{name}", "w") as out:
                out.write(text)
        for fmt, word in (("slurm", " -n 1 --group 8 "), ("skypilot", "--group $gpus"), ("kubernetes", '"-n", "1", "--group", "8", ')):
            text = subprocess.run([sys.argv[1], "plan", "--profile", f"{folder}/job.json", "--prices", f"{folder}/prices.csv", "--target", "samples=1.15e8",
                                   "--deadline", "1.1h", "--confidence", "0.5", "-o", fmt, "--", "true"], check=True, capture_output=True, text=True).stdout
            assert word in text and "--max" not in text, text


for check in (ec2_fleet, kubernetes, skypilot, slurm, many, started):
    try:
        check()
        checked.append(check.__name__)
        print("ok", check.__name__)
    except ImportError as missing:
        print("left out", check.__name__, "-", missing)
sys.exit(0 if checked else 77)
