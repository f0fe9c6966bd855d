/* SPDX-License-Identifier: Apache-2.0 */
/* Plans for the systems that rent machines. Strings go out as JSON strings, which YAML reads as
 * they are. */
#include "plan_args.h"
#include "plan_output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    size_t used = 0;

    for (; used < size && (mark = strstr(from, "{batch}")); from = mark + 7)
        used += (size_t)snprintf(filled + used, size - used, "%.*s%.0f", (int)(mark - from), from,
                                 chosen(x)->batch);
    if (used < size)
        snprintf(filled + used, size - used, "%s", from);
}

static void run_line(const struct spotnik_plan_context *x, const char *peers, unsigned most,
                     char *line, size_t size)
{
    char command[sizeof(x->command)];

    command_fill(x, command, sizeof(command));
    snprintf(line, size, "spotnik run --peers %s -n %u:%u -- %s", peers, least_of(most), most,
             command);
}

int spotnik_plan_print_skypilot(const struct spotnik_plan_context *x, FILE *out)
{
    const struct spotnik_fleet *fleet = chosen(x);
    char name[41], line[4400], infra[96];

    if (!fleet)
        return -1;
    clean_name(x->profile->name, name);
    unsigned machines = spotnik_fleet_machines(fleet);
    fprintf(out,
            "# %s, batch %.0f: planned by spotnik\n# prices: %s\nname: %s\nnum_nodes: "
            "%u\nresources:\n  any_of:\n",
            x->profile->name, fleet->batch, x->catalog->source, name, machines);
    for (size_t i = 0; i < fleet->group_count; i++) {
        const struct spotnik_group *g = &fleet->groups[i];
        const char *place = *g->offer->zone ? g->offer->zone : NULL;
        const char *cloud = strcmp(g->offer->cloud, "other") ? g->offer->cloud : "*";
        snprintf(infra, sizeof(infra), "%s%s%s%s%s", *cloud ? cloud : "aws",
                 *g->offer->region ? "/" : "", g->offer->region, place ? "/" : "",
                 place ? place : "");
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
    fputs("  job_recovery:\n    max_restarts_on_errors: 3\n    recover_on_exit_codes: [75]\nrun: ",
          out);
    run_line(x, "skypilot", machines, line, sizeof(line));
    put_string(line, out);
    fputc('\n', out);
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

static void kubernetes_job(const struct spotnik_plan_context *x, const struct spotnik_group *g,
                           const char *name, size_t index, unsigned total, FILE *out)
{
    char peers[64], command[sizeof(x->command)];

    snprintf(peers, sizeof(peers), "dns://%s", name);
    fprintf(out,
            "---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: %s-%zu\nspec:\n  "
            "completions: %u\n"
            "  parallelism: %u\n  completionMode: Indexed\n  backoffLimit: 1000000\n  template:\n  "
            "  metadata:\n"
            "      labels: {app: %s}\n    spec:\n      subdomain: %s\n      restartPolicy: Never\n"
            "      terminationGracePeriodSeconds: 25\n      nodeSelector:\n        "
            "node.kubernetes.io/instance-type: ",
            name, index, g->machines, g->machines, name, name);
    put_string(g->offer->instance, out);
    fprintf(out, "\n        karpenter.sh/capacity-type: %s\n", g->spot ? "spot" : "on-demand");
    if (*g->offer->zone) {
        fputs("        topology.kubernetes.io/zone: ", out);
        put_string(g->offer->zone, out);
        fputc('\n', out);
    }
    fputs("      containers:\n      - name: worker\n        image: "
          "\"registry.example/train:latest\"\n"
          "        command: [\"spotnik\", \"run\", \"--peers\", ",
          out);
    put_string(peers, out);
    fprintf(out, ", \"-n\", \"%u:%u\", \"--\", \"sh\", \"-c\", ", least_of(total), total);
    command_fill(x, command, sizeof(command));
    put_string(command, out);
    fputs("]\n", out);
    if (g->offer->accelerators > 0)
        fprintf(out, "        resources: {limits: {nvidia.com/gpu: %.0f}}\n",
                ceil(g->offer->accelerators));
}

int spotnik_plan_print_kubernetes(const struct spotnik_plan_context *x, FILE *out)
{
    const struct spotnik_fleet *fleet = chosen(x);
    char name[41];

    if (!fleet)
        return -1;
    clean_name(x->profile->name, name);
    fprintf(out,
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: %s\nspec:\n  clusterIP: None\n"
            "  publishNotReadyAddresses: true\n  selector: {app: %s}\n",
            name, name);
    for (size_t i = 0; i < fleet->group_count; i++)
        kubernetes_job(x, &fleet->groups[i], name, i, spotnik_fleet_machines(fleet), out);
    return 0;
}

int spotnik_plan_print_slurm(const struct spotnik_plan_context *x, FILE *out)
{
    const struct spotnik_fleet *fleet = chosen(x);
    char name[41], line[4400];

    if (!fleet)
        return -1;
    clean_name(x->profile->name, name);
    unsigned machines = spotnik_fleet_machines(fleet);
    fprintf(out,
            "#!/bin/bash\n#SBATCH --job-name=%s\n#SBATCH --nodes=%u\n#SBATCH --ntasks-per-node=1\n",
            name, machines);
    if (fleet->groups[0].offer->accelerators > 0)
        fprintf(out, "#SBATCH --gres=gpu:%.0f\n", ceil(fleet->groups[0].offer->accelerators));
    if (isfinite(x->wish->deadline_s))
        fprintf(out, "#SBATCH --time=%.0f\n", ceil(x->wish->deadline_s / 60));
    fputs("#SBATCH --requeue\n#SBATCH --no-kill\n#SBATCH --signal=USR1@60\n#SBATCH "
          "--open-mode=append\n",
          out);
    run_line(x, "slurm", machines, line, sizeof(line));
    fprintf(out,
            "# planned for %s, batch %.0f\nsrun --no-kill --kill-on-bad-exit=0 %s\nrc=$?\n"
            "[ $rc -eq 75 ] && scontrol requeue \"$SLURM_JOB_ID\"\nexit $rc\n",
            fleet->groups[0].offer->instance, fleet->batch, line);
    return 0;
}
