#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: price lists of AWS, GCP and Azure, the Spot Advisor and the price pages of AWS are read as they are meant, what is
left out is said with its reason, and what is kept has an age. The lists here are small ones of our own making, in the
formats of the clouds. Usage: prices.py SPOTNIK."""
import csv
import json
import os
import subprocess
import sys
import tempfile

AWS = """InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone,Arch
p3.2xlarge,V100,1.0,8.0,61.0,"{'Gpus': [{'Name': 'V100', 'Count': 1}]}",3.0,1.0,us-east-1,use1-az2,x86_64
p3.2xlarge,V100,1.0,8.0,61.0,,3.0,,us-east-1,use1-az4,x86_64
p4de.24xlarge,A100-80GB,8.0,96.0,1152.0,,27.0,9.0,us-east-1,us-east-1c,x86_64
m5.large,,,2.0,8.0,,0.1,0.04,us-east-1,use1-az2,x86_64
z9.unknown,Cerebra,1.0,8.0,61.0,,5.0,2.0,us-east-1,use1-az2,x86_64
x1.32xlarge,,,128.0,1952.0,,,,us-east-1,use1-az2,x86_64
"""
GCP = """InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,Price,SpotPrice
n1-standard-8,8.0,30.0,,,,us-central1,us-central1-a,0.4,0.1
n1-highmem-8,8.0,52.0,,,,us-central1,us-central1-a,0.5,0.11
n1-standard-4,4.0,15.0,,,,us-central1,us-central1-a,0.2,0.05
a2-highgpu-1g,12.0,85.0,,,,us-central1,us-central1-a,0.75,0.25
,,,V100,1.0,,us-central1,us-central1-a,2.5,0.75
,,,A100,1.0,,us-central1,us-central1-a,3.0,1.0
,,,T4,1.0,,us-central1,us-central1-b,0.35,0.1
,,,tpu-v5litepod-8,1.0,,us-central1,us-central1-a,9.6,4.0
"""
# the largest slices cost as much as a flat; machines with accelerators of their own, which no n1 can hold
GCP_MORE = """g4-standard-48,48.0,180.0,,,,us-central1,us-central1-a,2.0,0.5
a4x-highgpu-4g,140.0,884.0,,,,us-central1,us-central1-a,9.0,3.0
,,,RTXPRO6000,1.0,,us-central1,us-central1-a,2.5,1.0
,,,RTXPRO6000,1.0,,us-central1,us-central1-b,2.5,1.0
,,,tpu-v5p-12288,1,tpu-v5p-12288,us-central1,us-central1-a,29362.176,8086.34573
"""
PARTS = """InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone,Arch
g6f.large,L4,0.125,2.0,8.0,,0.2,0.1,us-east-1,use1-az2,x86_64
g6f.large,L4,0.125,2.0,8.0,,0.2,0.11,us-east-1,use1-az4,x86_64
"""
AZURE = """InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,Generation
Standard_NC6s_v3,V100,1.0,6.0,112.0,,3.06,0.31,eastus,V1
"""
ADVISOR = {"spot_advisor": {"us-east-1": {"Linux": {"p3.2xlarge": {"s": 70, "r": 1}, "p4de.24xlarge": {"s": 60, "r": 4}}}}}
SPOT_PAGE = "callback(" + json.dumps({"vers": 0.01, "config": {"regions": [{"region": "us-east", "instanceTypes": [
    {"type": "gpu", "sizes": [{"size": "p3.2xlarge", "valueColumns": [{"name": "linux", "prices": {"USD": "0.9"}}]},
                              {"size": "p2.xlarge", "valueColumns": [{"name": "linux", "prices": {"USD": "N/A*"}}]},
                              {"size": "g6.xlarge", "valueColumns": [{"name": "linux", "prices": {"USD": "0.3"}}]}]}]}]}}) + ");"
ON_DEMAND_PAGE = {"regions": {"US East (N. Virginia)": {
    "g6 xlarge": {"price": "0.8048", "Instance Type": "g6.xlarge", "vCPU": "4"},
    "odd": {"price": "0.8"}}, "Mars (Olympus)": {"g6": {"price": "1", "Instance Type": "g6.xlarge"}}}}
ZONES = "zone_id,zone\nuse1-az2,us-east-1b\nuse1-az4,us-east-1d\n"


def run(*words, fails=None, env=None):
    done = subprocess.run([sys.argv[1], *words], capture_output=True, text=True, env={**os.environ, **(env or {})})
    if fails is None:
        assert done.returncode == 0, (words, done.stderr)
    else:
        assert done.returncode and fails in done.stderr, (words, fails, done.stderr)
    return done


def close(got, wanted):
    assert abs(float(got) - wanted) < 1e-6, (got, wanted)


def parts(put, common):
    """An eighth of an accelerator, and lists of other clouds."""
    v100 = put("v100.json", {"name": "v", "devices": {"V100": {"samples_per_s": 300}, "L4": {
        "samples_per_s": 100}}, "batches": [1024], "samples_per_epoch": 1e6, "gradient_mb": 10})
    plan = (*common[:-2], "--profile", v100)
    lists = ("--prices", put("parts.csv", PARTS), "--prices", put("gcp.csv", GCP))
    # an eighth of an accelerator has an eighth of its memory, and is asked for as one
    run(*plan, *lists[:2], "--gpu-memory", "4", fails="the last to go were offers by --gpu-memory")
    for form, says in (("kubernetes", "nvidia.com/gpu: 1}"), ("slurm", "--gres=gpu:1\n")):
        assert says in run(*plan, *lists, "--type", "g6f.large", "-o", form).stdout, form
    # lists of other clouds are neither AWS's nor GCP's
    other = put("other.csv", "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice\n"
                "gpu_8x_v100,V100,8,88,448,4.4,us-east-1,,\nVM.GPU3.1,V100,1,6,90,2.95,us-ashburn-1,,\n")
    for name, region in (("gpu_8x_v100", "us-east-1"), ("VM.GPU3.1", "us-ashburn-1")):
        assert f'infra: "*/{region}"' in run(*plan, "--prices", other, "--type", name, "-o", "skypilot").stdout
    run(*plan, "--prices", other, "-o", "ec2-fleet", fails="--cloud aws")


def main(folder):
    def put(name, text):
        with open(os.path.join(folder, name), "w") as out:
            out.write(text if isinstance(text, str) else json.dumps(text))
        return os.path.join(folder, name)

    def update(*sources):
        said = run("prices", "update", *[word for source in sources for word in ("--from", source)], env=env).stdout
        with open(env["SPOTNIK_PRICES"]) as kept:
            return said, list(csv.DictReader(kept))

    env = {"SPOTNIK_PRICES": os.path.join(folder, "kept.csv")}
    run("prices", "show", fails="no prices are kept", env=env)
    said, rows = update(put("aws.csv", AWS), put("gcp.csv", GCP), put("azure.csv", AZURE), put("zones.csv", ZONES),
                        put("advisor.json", ADVISOR))
    find = {(row["instance_type"], row["accelerator"], row["zone_id"]): row for row in rows}

    # AWS: ids are not names, until a table of one's own account names them; names stay names.
    assert find["p3.2xlarge", "V100", "use1-az2"]["zone"] == "us-east-1b"
    assert find["p4de.24xlarge", "A100-80GB", ""]["zone"] == "us-east-1c"
    # a zone without a spot price gets the Advisor's estimate, and a band is a band
    close(find["p3.2xlarge", "V100", "use1-az4"]["spot_usd_per_h"], 0.9)
    low, high = (float(find["p3.2xlarge", "V100", "use1-az2"][key]) for key in ("losses_per_h", "losses_most_per_h"))
    assert 0 < low < high
    assert find["p4de.24xlarge", "A100-80GB", ""]["losses_per_h"] == ""  # "more than 20 %" says nothing
    # GCP: accelerators with their hosts, the cheapest n1 that is large enough; a2 with the A100; the host of a TPU is free
    v100 = find["n1-highmem-8", "V100", ""] if ("n1-highmem-8", "V100", "") in find else find["n1-standard-8", "V100", ""]
    assert v100["instance_type"] == "n1-standard-8" and v100["vcpus"] == "8"
    close(v100["on_demand_usd_per_h"], 2.9)
    close(v100["spot_usd_per_h"], 0.85)
    close(find["a2-highgpu-1g", "A100", ""]["on_demand_usd_per_h"], 3.75)
    close(find["TPU-VM", "tpu-v5litepod-8", ""]["spot_usd_per_h"], 4)
    assert not any(row["instance_type"] == "" for row in rows)
    assert not any(row["instance_type"] == "a2-highgpu-1g" and row["accelerator"] == "" for row in rows)
    assert find["Standard_NC6s_v3", "V100", ""]["region"] == "eastus"
    # what was left out, and what no table knows
    assert "1 rows without a price (the first: x1.32xlarge)" in said, said
    assert "1 accelerators without a machine to hold them in their zone (the first: T4)" in said, said
    assert "not in the table of accelerators: Cerebra" in said, said
    assert "aws: 5 offers, 4 with accelerators" in said and "azure: 1 offers" in said, said

    _, rows = update(put("more.csv", GCP + GCP_MORE))
    find = {(row["instance_type"], row["accelerator"]): row for row in rows}
    close(find["TPU-VM", "tpu-v5p-12288"]["on_demand_usd_per_h"], 29362.176)
    assert [name for name, accelerator in find if accelerator == "RTXPRO6000"] == ["g4-standard-48"], sorted(find)
    close(find["g4-standard-48", "RTXPRO6000"]["on_demand_usd_per_h"], 4.5)
    assert not any(name in ("g4-standard-48", "a4x-highgpu-4g") and not accelerator for name, accelerator in find), sorted(find)
    update(*(os.path.join(folder, name) for name in ("aws.csv", "gcp.csv", "azure.csv", "zones.csv", "advisor.json")))

    # plan: from GCP with machine, accelerator and cloud; nothing nameless is rented
    common = ("plan", "--deadline", "30h", "--target", "epochs=9", "--only", "on-demand")
    task = run(*common, "--cloud", "gcp", "--accelerator", "v100", "-o", "skypilot", env=env).stdout
    assert '"gcp/us-central1/us-central1-a"' in task and '"n1-standard-8"' in task and '{"V100": 1}' in task, task
    run(*common, "--cloud", "gcp", "-o", "ec2-fleet", fails="--cloud aws", env=env)
    # an accelerator of the same chip counts, and it is said; an unknown one does not, and it is said
    table = run(*common, "--cloud", "aws", env=env).stdout
    assert "note: 1 offers with A100-80GB count as fast as the A100 of the profile" in table, table
    assert "left out: 1 offers with Cerebra, which the profile was not measured on (the first: z9.unknown)" in table, table
    assert "left out: 3 offers by --cloud" in table or "offers by --cloud" in table, table

    def kinds(*words):
        plan = json.loads(run(*common[:-2], *words, "-o", "json", env=env).stdout)
        return {(m["instance"], m["zone"]) for c in plan["candidates"] for m in c["machines"]}, plan

    assert {i for i, _ in kinds("--gpu-memory", "40")[0]} == {"a2-highgpu-1g", "p4de.24xlarge"}
    assert {i for i, _ in kinds("--region", "us-east-*", "--type", "p3.*")[0]} == {"p3.2xlarge"}
    assert {z for _, z in kinds("--zone", "us-east-1b", "--only", "spot", "--type", "p3.*")[0]} == {"us-east-1b"}
    _, plan = kinds("--type", "p3.2xlarge", "--quota", "p3.*=2")
    assert max(sum(m["count"] for m in c["machines"]) for c in plan["candidates"]) == 2
    run(*common, "--region", "moon-*", fails="no offer of", env=env)
    # an id where a name belongs: what there is is named; so is a quota that leaves nothing
    run(*common, "--region", "use1-az2", fails="offers by --region; there are eastus, us-central1, us-east-1", env=env)
    run(*common, "--zone", "us-east-1z", fails="offers by --zone; there are ", env=env)
    run(*common, "--type", "p3.*", "--quota", "p3.*=0", fails="within --quota can run the job", env=env)

    parts(put, common)

    # the price pages of AWS: prices of what is known, offers of what is not; a list of types alone has accelerators
    said, rows = update(put("aws.csv", AWS), put("spot.js", SPOT_PAGE), put("page.json", ON_DEMAND_PAGE))
    find = {(row["instance_type"], row["zone_id"]): row for row in rows}
    close(find["p3.2xlarge", "use1-az4"]["spot_usd_per_h"], 0.9)
    g6 = find["g6.xlarge", ""]
    assert (g6["accelerator"], g6["accelerator_count"], g6["vcpus"]) == ("L4", "1", "4"), g6
    close(g6["on_demand_usd_per_h"], 0.8048)
    close(g6["spot_usd_per_h"], 0.3)
    for reason in ("types without a spot price on the price page", "rows of the price page without type or price",
                   "places of the price page that are not known"):
        assert reason in said, said
    run("prices", "update", "--from", put("odd.json", {"what": 1}), fails="neither the Spot Advisor", env=env)
    # what adds to offers does so in whatever order it is named
    sources, kept = (put("vms.csv", AWS), put("advisor.json", ADVISOR), put("zones.csv", ZONES)), []
    for order in (sources, sources[::-1]):
        into = put("order.csv", "")
        run("prices", "update", *[word for source in order for word in ("--from", source)], "--into", into)
        with open(into) as out:
            kept.append(out.read())
    assert kept[0] == kept[1] and "us-east-1b" in kept[0], kept
    run("prices", "update", "--from", put("advisor.json", ADVISOR), fails="only add to lists", env=env)
    run("prices", "update", "--from", "http://example.org/x", fails="only https://, files, and http:// of this machine", env=env)

    # age: what is kept is used, what is old is refused, politely
    assert "0 min" in run("prices", "show", env=env).stdout
    os.utime(env["SPOTNIK_PRICES"], (0, os.path.getmtime(env["SPOTNIK_PRICES"]) - 12 * 86400))
    run(*common, fails="12 days old; `spotnik prices update` gets today's", env=env)
    assert "kept 12 days ago" in run(*common, "--prices-age", "13d", env=env).stdout
    assert "built-in table" in run(*common, "--prices", "builtin", env=env).stdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spotnik-prices-") as scratch:
        main(scratch)
    print("ok")
