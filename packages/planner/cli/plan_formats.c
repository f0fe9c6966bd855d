/* SPDX-License-Identifier: Apache-2.0 */
/* Plans for the systems that rent machines. Strings go out as JSON strings, which YAML reads as
 * they are. */
#include "base/assert.h"
#include "plan_args.h"
#include "plan_output.h"
#include "common/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PORT 21210    /* of the first worker of a pod */
#define PROBED_MOST 8 /* workers that a probe asks */
#define MEMBERS_MOST 256

static void put_string(const char *text, FILE *out)
{
    json_t *json = json_string(text);
    char *quoted = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;

    fputs(quoted ? quoted : "\"\"", out);
    free(quoted);
    json_decref(json);
}

/* A name of lower-case letters, digits and hyphens, as Kubernetes and SkyPilot want it. */
static void clean_name(const char *text, char name[41])
{
    size_t used = 0;

    for (; *text && used < 40; text++) {
        char c = *text >= 'A' && *text <= 'Z' ? (char)(*text + 32) : *text;
        bool fine = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (fine || (used && name[used - 1] != '-'))
            name[used++] = fine ? c : '-';
    }
    while (used && name[used - 1] == '-')
        used--;
    name[used] = '\0';
    if (!used || (name[0] >= '0' && name[0] <= '9'))
        snprintf(name, 41, "train");
}

static const struct spotnik_fleet *chosen(const struct spotnik_plan_context *x)
{
    return x->plan->found ? &x->plan->candidates[0].fleet : NULL;
}

/* The fewest machines worth going on with: half. */
static unsigned least_of(unsigned machines)
{
    return machines > 1 ? (machines + 1) / 2 : 1;
}

/* Every "{batch}" of the command becomes the batch of the plan, as it does while it is profiled. */
static void command_fill(const struct spotnik_plan_context *x, char *filled, size_t size)
{
    const char *from = x->command, *mark;
    const struct spotnik_fleet *fleet = chosen(x);
    size_t used = 0;

    SPOTNIK_ASSERT(fleet);
    for (; used < size && (mark = strstr(from, "{batch}")); from = mark + 7)
        used += (size_t)snprintf(filled + used, size - used, "%.*s%.0f", (int)(mark - from), from,
                                 fleet->batch);
    if (used < size)
        snprintf(filled + used, size - used, "%s", from);
}

/* All accelerators of a machine are one member, else each processor is. */
static unsigned workers_of(const struct spotnik_offer *offer)
{
    return offer->accelerators > 0 ? 1 : (unsigned)fmax(1, ceil(offer->vcpus));
}

/* Several accelerators are a group of as many processes (docs/guide/groups.md). "": they are not. */
static const char *group_of(const struct spotnik_offer *offer, const char *form, char text[32])
{
    unsigned size = (unsigned)ceil(offer->accelerators);

    text[0] = '\0';
    if (size > 1)
        snprintf(text, 32, form, size);
    return text;
}

static unsigned workers_in(const struct spotnik_fleet *fleet)
{
    unsigned workers = 0;

    SPOTNIK_ASSERT(fleet);
    for (size_t i = 0; i < fleet->group_count; i++)
        workers += workers_of(fleet->groups[i].offer) * fleet->groups[i].machines;
    return workers;
}

/* spotnik run admits 256 members without --max. */
static const char *most_of(const struct spotnik_fleet *fleet, char text[24])
{
    snprintf(text, 24, workers_in(fleet) > MEMBERS_MOST ? " --max %u" : "", workers_in(fleet));
    return text;
}

/* What all systems say of a plan, in a comment: no line of it ends early, whatever the names. */
static void put_head(const struct spotnik_plan_context *x, FILE *out)
{
    const struct spotnik_fleet *fleet = chosen(x);

    SPOTNIK_ASSERT(fleet);
    fputs("# ", out);
    put_string(x->profile->name, out);
    fprintf(out, ", batch %.0f: planned by spotnik, at prices of ", fleet->batch);
    put_string(x->catalog->source, out);
    fputc('\n', out);
}

/* One of the machines that SkyPilot may take. */
static void sky_machine(const struct spotnik_group *g, FILE *out)
{
    char infra[96];
    const char *place = *g->offer->zone ? g->offer->zone : NULL;
    const char *cloud = strcmp(g->offer->cloud, "other") ? g->offer->cloud : "*";

    snprintf(infra, sizeof(infra), "%s%s%s%s%s", *cloud ? cloud : "aws",
             *g->offer->region ? "/" : "", g->offer->region, place ? "/" : "", place ? place : "");
    fputs("    - infra: ", out);
    put_string(infra, out);
    fputs("\n      instance_type: ", out);
    put_string(g->offer->instance, out);
    fprintf(out, "\n      use_spot: %s\n", g->spot ? "true" : "false");
    if (!strcmp(g->offer->cloud, "gcp")
        && *g->offer->accelerator) { /* the machine does not say what it holds */
        fputs("      accelerators: {", out);
        put_string(g->offer->accelerator, out);
        fprintf(out, ": %.0f}\n", g->offer->accelerators);
    }
}

/* SkyPilot says how many GPUs the machines have that it has found. */
static void sky_run(const struct spotnik_plan_context *x, unsigned machines, FILE *out)
{
    char command[sizeof(x->command)], script[sizeof(x->command) + 700], most[24];

    command_fill(x, command, sizeof(command));
    snprintf(
        script, sizeof(script),
        "umask 077 && printf '%%s\\n' \"$SPOTNIK_KEY\" > ~/job.key\n"
        "export SPOTNIK_CHECKPOINT=/checkpoints/$SKYPILOT_TASK_ID\n"
        "gpus=${SKYPILOT_NUM_GPUS_PER_NODE:-0}; workers=$((gpus ? 1 : $(nproc)))\n"
        "[ $gpus -lt 2 ] || group=\"--group $gpus\"  # of processes, one for each GPU: one member\n"
        "spotnik run -n $workers $group --respawn --min $((%u * workers))%s --peers skypilot "
        "--key-file ~/job.key -- %s\n",
        least_of(machines), most_of(chosen(x), most), command);
    fputs("run: ", out);
    put_string(script, out);
    fputc('\n', out);
}

int spotnik_plan_print_skypilot(const struct spotnik_plan_context *x, FILE *out)
{
    const struct spotnik_fleet *fleet = chosen(x);
    char name[41];

    if (!fleet)
        return -1;
    clean_name(x->profile->name, name);
    put_head(x, out);
    fprintf(out,
            "# spotnik key job.key; sky jobs launch --secret SPOTNIK_KEY=\"$(cat job.key)\" FILE\n"
            "name: %s\nnum_nodes: %u\nresources:\n  any_of:\n",
            name, spotnik_fleet_machines(fleet));
    for (size_t i = 0; i < fleet->group_count; i++)
        sky_machine(&fleet->groups[i], out);
    fprintf(out,
            "  job_recovery:\n    max_restarts_on_errors: 3\n    recover_on_exit_codes: [75]\n"
            "secrets:\n  SPOTNIK_KEY: null\n"
            "file_mounts:\n  /checkpoints:\n    name: %s-checkpoints  # a bucket of yours\n"
            "    mode: MOUNT_CACHED\nsetup: pip install spotnik\n",
            name);
    sky_run(x, spotnik_fleet_machines(fleet), out);
    return 0;
}

/* Capacity in throughput: one unit is a hundredth of the slowest machine of the fleet. */
static long weight_of(const struct spotnik_plan_context *x, const struct spotnik_fleet *fleet,
                      size_t i)
{
    double slowest_s = 0, own_s = 0;

    for (size_t j = 0; j < fleet->group_count; j++) {
        unsigned alive[SPOTNIK_FLEET_GROUPS] = { 0 };
        alive[j] = 1;
        double step_s = spotnik_fleet_step_s(x->profile, fleet, alive);
        slowest_s = fmax(slowest_s, step_s);
        if (j == i)
            own_s = step_s;
    }
    return lround(fmin(999, 10 * slowest_s / own_s));
}

int spotnik_plan_print_ec2_fleet(const struct spotnik_plan_context *x, FILE *out)
{
    const struct spotnik_fleet *fleet = chosen(x);
    json_t *overrides = json_array();
    long total = 0, on_demand = 0;

    for (size_t i = 0; fleet && i < fleet->group_count; i++)
        if (strcmp(fleet->groups[i].offer->cloud, "aws"))
            fleet = NULL; /* EC2 rents nothing of other clouds */
    if (!fleet) {
        json_decref(overrides);
        return -1;
    }
    for (size_t i = 0; i < fleet->group_count; i++) {
        const struct spotnik_group *g = &fleet->groups[i];
        long weight = weight_of(x, fleet, i);
        json_t *override = json_pack("{s:s, s:f}", "InstanceType", g->offer->instance,
                                     "WeightedCapacity", (double)weight);
        if (*g->offer->zone)
            json_object_set_new(override, "AvailabilityZone", json_string(g->offer->zone));
        json_array_append_new(overrides, override);
        total += weight * g->machines;
        on_demand += g->spot ? 0 : weight * g->machines;
    }
    json_t *json =
        json_pack("{s:s, s:{s:I, s:I, s:I, s:s}, s:{s:s}, s:{s:s}, s:b, s:[{s:{s:s, s:s}, s:o}]}",
                  "Type", "maintain", "TargetCapacitySpecification", "TotalTargetCapacity",
                  (json_int_t)total, "OnDemandTargetCapacity", (json_int_t)on_demand,
                  "SpotTargetCapacity", (json_int_t)(total - on_demand),
                  "DefaultTargetCapacityType", total > on_demand ? "spot" : "on-demand",
                  "SpotOptions", "AllocationStrategy", "price-capacity-optimized",
                  "OnDemandOptions", "AllocationStrategy", "lowest-price",
                  "TerminateInstancesWithExpiration", 1, "LaunchTemplateConfigs",
                  "LaunchTemplateSpecification", "LaunchTemplateName", "spotnik", "Version",
                  "$Latest", "Overrides", overrides);
    int rc = json ? json_dumpf(json, out, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : -1;
    fputc('\n', out);
    json_decref(json);
    return rc;
}

/* "train-0-[0-3].train,train-1-[0-1].train": the pods of each group, which begin the job. */
static void put_peers(const struct spotnik_fleet *fleet, const char *name, FILE *out)
{
    fputs("\"dns://", out);
    for (size_t i = 0; i < fleet->group_count; i++)
        fprintf(out, "%s%s-%zu-[0-%u].%s", i ? "," : "", name, i, fleet->groups[i].machines - 1,
                name);
    fputc('"', out);
}

/* As spotnik kubernetes writes them: a worker answers as soon as it looks for its job. */
static void kubernetes_probes(unsigned workers, FILE *out)
{
    static const char *const probes[][2] = {
        { "startupProbe", "periodSeconds: 10, failureThreshold: 360" },
        { "livenessProbe", "periodSeconds: 30, failureThreshold: 10" },
    };

    for (size_t i = 0; i < 2; i++) {
        fprintf(out,
                "        %s: {%s, timeoutSeconds: 10, exec: {command: [sh, -c, \"spotnik status "
                "--peers ",
                probes[i][0], probes[i][1]);
        for (unsigned worker = 0; worker < workers && worker < PROBED_MOST; worker++)
            fprintf(out, "%s$POD_IP:%u", worker ? "," : "", PORT + worker);
        fputs(" --key-file /etc/spotnik/key > /dev/null; [ $? != 1 ]\"]}}\n", out);
    }
}

static void kubernetes_container(const struct spotnik_plan_context *x,
                                 const struct spotnik_group *g, const char *name, FILE *out)
{
    char command[sizeof(x->command)], words[2 * sizeof(command)], group[32];

    fprintf(out,
            "      containers:\n      - name: worker\n        image: registry.example/train:1  "
            "# yours, with spotnik in it\n"
            "        command: [\"spotnik\", \"run\", \"-n\", \"%u\", %s\"--respawn\", \"--min\", "
            "\"%u\", ",
            workers_of(g->offer), group_of(g->offer, "\"--group\", \"%u\", ", group),
            least_of(workers_in(chosen(x))));
    if (workers_in(chosen(x)) > MEMBERS_MOST)
        fprintf(out, "\"--max\", \"%u\", ", workers_in(chosen(x)));
    fputs("\"--peers\", ", out);
    put_peers(chosen(x), name, out);
    fputs(", \"--key-file\", \"/etc/spotnik/key\", \"--\", \"sh\", \"-c\", ", out);
    command_fill(x, command, sizeof(command));
    option_container_word(command, words);
    put_string(words, out);
    fputs("]\n        env:\n        - name: POD_IP\n          valueFrom:\n            fieldRef:\n"
          "              fieldPath: status.podIP\n        - name: SPOTNIK_CHECKPOINT\n"
          "          value: /data/checkpoints\n        ports:\n        - containerPort: 21210\n",
          out);
    kubernetes_probes(workers_of(g->offer), out);
    if (g->offer->accelerators > 0)
        fprintf(out, "        resources: {limits: {nvidia.com/gpu: %.0f}}\n",
                ceil(g->offer->accelerators));
    fputs("        volumeMounts:\n        - {name: key, mountPath: /etc/spotnik, readOnly: true}\n"
          "        - {name: data, mountPath: /data}\n"
          "      volumes:\n"
          "      - {name: key, secret: {secretName: train-key, defaultMode: 0400}}\n"
          "      - {name: data, persistentVolumeClaim: {claimName: train-data}}\n",
          out);
}

static void kubernetes_nodes(const struct spotnik_group *g, FILE *out)
{
    fputs("      nodeSelector:\n        node.kubernetes.io/instance-type: ", out);
    put_string(g->offer->instance, out);
    fprintf(out, "\n        karpenter.sh/capacity-type: %s\n", g->spot ? "spot" : "on-demand");
    if (*g->offer->zone) {
        fputs("        topology.kubernetes.io/zone: ", out);
        put_string(g->offer->zone, out);
        fputc('\n', out);
    }
    if (g->spot)
        fputs("      tolerations:\n"
              "      - {key: cloud.google.com/gke-spot, operator: Exists}\n"
              "      - {key: kubernetes.azure.com/scalesetpriority, operator: Exists}\n",
              out);
}

static void kubernetes_job(const struct spotnik_plan_context *x, size_t index, const char *name,
                           FILE *out)
{
    const struct spotnik_group *g = &chosen(x)->groups[index];

    fprintf(out,
            "---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: %s-%zu\nspec:\n"
            "  completions: %u\n  parallelism: %u\n  completionMode: Indexed\n"
            "  backoffLimit: 1000\n  successPolicy:\n    rules:\n    - succeededCount: %u\n"
            "  podFailurePolicy:\n    rules:\n    - action: Ignore\n      onPodConditions:\n"
            "      - {type: DisruptionTarget, status: \"True\"}\n    - action: Ignore\n"
            "      onExitCodes: {containerName: worker, operator: In, values: [75]}\n"
            "    - action: FailJob  # ended, and completed no checkpoint: it would train anew\n"
            "      onExitCodes: {containerName: worker, operator: In, values: [74]}\n"
            "  template:\n    metadata:\n      labels: {app: %s}\n    spec:\n      subdomain: %s\n"
            "      restartPolicy: Never\n      terminationGracePeriodSeconds: 25\n"
            "      automountServiceAccountToken: false\n",
            name, index, g->machines, g->machines, least_of(g->machines), name, name);
    kubernetes_nodes(g, out);
    kubernetes_container(x, g, name, out);
}

int spotnik_plan_print_kubernetes(const struct spotnik_plan_context *x, FILE *out)
{
    const struct spotnik_fleet *fleet = chosen(x);
    char name[41];

    if (!fleet)
        return -1;
    clean_name(x->profile->name, name);
    put_head(x, out);
    fprintf(out,
            "# spotnik key job.key; kubectl create secret generic train-key --from-file=key=job.key"
            "\n# train-data: a claim that all pods can mount (ReadWriteMany)\n"
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: %s\nspec:\n  clusterIP: None\n"
            "  publishNotReadyAddresses: true\n  selector: {app: %s}\n",
            name, name);
    for (size_t i = 0; i < fleet->group_count; i++)
        kubernetes_job(x, i, name, out);
    return 0;
}

int spotnik_plan_print_slurm(const struct spotnik_plan_context *x, FILE *out)
{
    const struct spotnik_fleet *fleet = chosen(x);
    char name[41], command[sizeof(x->command)], most[24], group[32];

    if (!fleet)
        return -1;
    const struct spotnik_offer *offer = fleet->groups[0].offer;
    unsigned machines = spotnik_fleet_machines(fleet);
    clean_name(x->profile->name, name);
    command_fill(x, command, sizeof(command));
    fputs("#!/bin/bash\n", out);
    put_head(x, out);
    fprintf(out, "#SBATCH --job-name=%s\n#SBATCH --nodes=%u\n#SBATCH --ntasks-per-node=1\n", name,
            machines);
    if (offer->accelerators > 0)
        fprintf(out, "#SBATCH --gres=gpu:%.0f\n", ceil(offer->accelerators));
    if (isfinite(x->wish->deadline_s))
        fprintf(out, "#SBATCH --time=%.0f\n", ceil(x->wish->deadline_s / 60));
    fprintf(out,
            "#SBATCH --requeue\n#SBATCH --no-kill\n#SBATCH --signal=USR1@60\n"
            "#SBATCH --open-mode=append\n"
            "[ -e job.key ] || spotnik key job.key || exit 1  # in a folder that all nodes see\n"
            "export SPOTNIK_CHECKPOINT=$PWD/checkpoints; mkdir -p checkpoints\n"
            "srun --no-kill --kill-on-bad-exit=0 \\\n"
            "    spotnik run -n %u%s --respawn --min %u%s --peers slurm --key-file job.key -- %s\n"
            "rc=$?\n[ $rc -ne 75 ] || scontrol requeue \"$SLURM_JOB_ID\"\nexit $rc\n",
            workers_of(offer), group_of(offer, " --group %u", group),
            least_of(machines) * workers_of(offer), most_of(fleet, most), command);
    return 0;
}
