/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm, Kubernetes, SkyPilot and a command as engines, each by the tool that its users have:
 * squeue, sbatch, scancel; kubectl; sky; /bin/sh. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fleet_engine.h"

#define OUTPUT_MAX (1u << 20)
#define ELEMENTS_MAX 4096

int fleet_command(const char *command, char *output, uint32_t size)
{
    uint32_t used = 0;
    size_t got;
    FILE *pipe = popen(command, "re");

    output[0] = 0;
    if (!pipe)
        return -1;
    while (used < size - 1 && (got = fread(output + used, 1, size - 1 - used, pipe)) > 0)
        used += (uint32_t)got;
    output[used] = 0;
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool complain(const char *what, const char *output)
{
    fprintf(stderr, "spotnik fleet: %s: %.*s\n", what, (int)strcspn(output, "\n"),
            *output ? output : "no output");
    return false;
}

static bool has_file(const struct fleet *fleet, const char *name)
{
    char path[4200];

    snprintf(path, sizeof(path), "%s/%s", fleet->folder, name);
    return access(path, F_OK) == 0;
}

/* ---- Slurm: the elements of the folder are those whose comment names it ---- */

/* A job of the engine that holds one machine. */
struct element {
    char id[40];
    bool running;
};

static struct element element[ELEMENTS_MAX];
static uint32_t elements;

static bool slurm_list(const struct fleet *fleet)
{
    static char output[OUTPUT_MAX];
    char command[4300], id[40], state[40], *save = NULL;

    snprintf(command, sizeof(command), "squeue -h -r -o '%%i %%T %%k' 2>&1");
    if (fleet_command(command, output, sizeof(output)))
        return complain("squeue", output);
    elements = 0;
    for (char *line = strtok_r(output, "\n", &save); line && elements < ELEMENTS_MAX;
         line = strtok_r(NULL, "\n", &save)) {
        int comment = 0;
        if (sscanf(line, " %39s %39s %n", id, state, &comment) != 2
            || strncmp(line + comment, "spotnik:", 8) || strcmp(line + comment + 8, fleet->folder)
            || !strcmp(state, "COMPLETING") || id[strspn(id, "0123456789_+")])
            continue;
        element[elements].running = !strcmp(state, "RUNNING");
        memcpy(element[elements++].id, id, sizeof(id));
    }
    return true;
}

static bool slurm_look(const struct fleet *fleet, struct fleet_view *ret)
{
    if (!has_file(fleet, "job.sbatch"))
        return complain(fleet->folder,
                        "has no job.sbatch; make it with: spotnik slurm submit --write");
    if (!slurm_list(fleet))
        return false;
    ret->have = elements;
    for (uint32_t i = 0; i < elements; i++)
        ret->running += element[i].running;
    ret->done = has_file(fleet, "done");
    return true;
}

/* Those that wait go first, then the youngest. They leave in good order: both engines send
 * SIGTERM. */
static bool fewer(const char *cancel, uint32_t count)
{
    char command[128], output[1024];

    for (int running = 0; running < 2; running++)
        for (uint32_t i = elements; i-- > 0 && count > 0;) {
            if (element[i].running != (running != 0))
                continue;
            snprintf(command, sizeof(command), "%s '%s' 2>&1", cancel, element[i].id);
            if (fleet_command(command, output, sizeof(output)))
                return complain(cancel, output);
            count--;
        }
    return true;
}

static bool slurm_act(const struct fleet *fleet, uint32_t wanted, const struct fleet_view *view)
{
    char command[4400], output[1024];

    if (wanted < view->have)
        return fewer("scancel", view->have - wanted);
    snprintf(command, sizeof(command), "sbatch --array=0-%u '%s/job.sbatch' 2>&1",
             wanted - view->have - 1, fleet->folder);
    return fleet_command(command, output, sizeof(output)) == 0 || complain("sbatch", output);
}

/* ---- Kubernetes: the parallelism of an Indexed Job ---- */

static bool kubernetes_look(const struct fleet *fleet, struct fleet_view *ret)
{
    static char output[OUTPUT_MAX];
    char command[400];
    const json_t *condition;
    size_t i;

    snprintf(command, sizeof(command), "kubectl get job '%s' -o json 2>&1", fleet->name);
    if (fleet_command(command, output, sizeof(output)))
        return complain("kubectl", output);
    json_t *job = json_loads(output, 0, NULL);
    const json_t *status = json_object_get(job, "status"), *spec = json_object_get(job, "spec");
    ret->have = (uint32_t)json_integer_value(json_object_get(spec, "parallelism"));
    ret->running = (uint32_t)json_integer_value(json_object_get(status, "active"));
    ret->done = json_integer_value(json_object_get(status, "succeeded"))
                > 0; /* a worker that ends with 0: the training is over */
    json_array_foreach(json_object_get(status, "conditions"), i, condition)
    {
        const char *type = json_string_value(json_object_get(condition, "type")),
                   *is = json_string_value(json_object_get(condition, "status"));
        ret->done |= type && is && !strcmp(type, "Complete") && !strcmp(is, "True");
    }
    bool readable = json_is_object(spec);
    json_decref(job);
    return readable || complain("kubectl: this is no job", output);
}

static bool kubernetes_act(const struct fleet *fleet, uint32_t wanted)
{
    char command[600], output[1024];

    snprintf(command, sizeof(command),
             "kubectl patch job '%s' -p '{\"spec\":{\"parallelism\":%u,\"completions\":%u}}' 2>&1",
             fleet->name, wanted, wanted);
    return fleet_command(command, output, sizeof(output)) == 0 || complain("kubectl", output);
}

/* ---- SkyPilot: managed jobs of one machine each, which it replaces one by one ---- */

/* Whether a job of this state holds a machine or waits for one; *ret_running: it holds one. */
static bool sky_lives(const char *status, bool *ret_running)
{
    static const char *const waits[] = { "PENDING", "SUBMITTED", "STARTING", "RECOVERING" };

    *ret_running = !strcmp(status, "RUNNING");
    for (uint32_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
        if (!strcmp(status, waits[i]))
            return true;
    return *ret_running;
}

static void sky_take(const json_t *job, struct fleet_view *ret)
{
    const char *status = json_string_value(json_object_get(job, "status"));
    long long id = json_integer_value(json_object_get(job, "job_id"));
    bool running;

    if (!status)
        return;
    ret->done |= !strcmp(status, "SUCCEEDED");
    if (!strncmp(status, "FAILED", 6))
        snprintf(ret->why, sizeof(ret->why), "job %lld is %.30s; sky jobs logs %lld tells more", id,
                 status, id);
    if (!sky_lives(status, &running) || elements == ELEMENTS_MAX)
        return;
    element[elements].running = running;
    snprintf(element[elements++].id, sizeof(element->id), "%lld", id);
    ret->have++;
    ret->running += running;
}

static bool sky_look(const struct fleet *fleet, struct fleet_view *ret)
{
    static char output[OUTPUT_MAX];
    size_t i;
    const json_t *job;

    if (!has_file(fleet, "task.yaml"))
        return complain(fleet->folder,
                        "has no task.yaml; put SkyPilot's task for one machine there");
    if (fleet_command("sky jobs queue --all --output json", output, sizeof(output)))
        return complain("sky jobs queue failed (start the first machine with sky jobs launch)",
                        output);
    json_t *jobs = json_loads(output, 0, NULL);
    elements = 0;
    json_array_foreach(jobs, i, job)
    {
        const char *name = json_string_value(json_object_get(job, "job_name"));
        if (name && !strcmp(name, fleet->name))
            sky_take(job, ret);
    }
    bool readable = json_is_array(jobs);
    json_decref(jobs);
    return readable || complain("sky jobs queue: this is no list of jobs", output);
}

static bool sky_act(const struct fleet *fleet, uint32_t wanted, const struct fleet_view *view)
{
    char command[4600], output[4096];

    if (wanted < view->have)
        return fewer("sky jobs cancel --yes", view->have - wanted);
    snprintf(command, sizeof(command),
             "sky jobs launch --yes --detach-run --num-nodes 1 --name '%s' %s '%s/task.yaml' 2>&1",
             fleet->name, getenv("SPOTNIK_KEY") ? "--secret SPOTNIK_KEY" : "", fleet->folder);
    for (uint32_t have = view->have; have < wanted; have++)
        if (fleet_command(command, output, sizeof(output)))
            return complain("sky jobs launch", output);
    return true;
}

/* ---- a command: it is told how many are wanted, makes it so, and says how many there are: "HAVE
 * [words]", or "done" ---- */

/* "p3.2xlarge=spot:2" of an answer; what is no such word is why machines went. */
static void kinds_take(char *words, struct fleet_view *ret)
{
    char kind[sizeof(ret->kind->name)];
    int length = 0;

    while (ret->kind_count < FLEET_KINDS && sscanf(words, " %119s%n", kind, &length) == 1) {
        char *count = strrchr(kind, ':');
        uint32_t number;
        if (!count || !strchr(kind, '=') || sscanf(count + 1, "%u", &number) != 1)
            break;
        *count = 0;
        struct fleet_kind *next = &ret->kind[ret->kind_count++];
        snprintf(next->name, sizeof(next->name), "%s", kind);
        next->count = number;
        words += length;
    }
    snprintf(ret->why, sizeof(ret->why), "%.*s", (int)strcspn(words + strspn(words, " "), "\n"),
             words + strspn(words, " "));
}

static void kinds_tell(const struct fleet_plan *plan)
{
    char text[FLEET_KINDS * (sizeof(plan->kind->name) + 12)] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < plan->kind_count && used < sizeof(text); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s:%u", i ? " " : "",
                                 plan->kind[i].name, plan->kind[i].count);
    setenv("SPOTNIK_FLEET_KINDS", text, 1);
}

static bool exec_look(const struct fleet *fleet, const struct fleet_plan *plan,
                      struct fleet_view *ret)
{
    char output[4096], number[16];
    int length = 0;

    snprintf(number, sizeof(number), "%u", plan->machines);
    setenv("SPOTNIK_FLEET_WANTED", number, 1);
    kinds_tell(plan);
    if (fleet_command(fleet->engine + 5, output, sizeof(output)))
        return complain(fleet->engine, output);
    ret->done = !strncmp(output, "done", 4);
    if (!ret->done && sscanf(output, "%u%n", &ret->have, &length) < 1)
        return complain(fleet->engine, output);
    kinds_take(output + length, ret);
    ret->running = ret->have;
    return true;
}

/* ---- any of them ---- */

bool fleet_look(const struct fleet *fleet, const struct fleet_plan *plan, struct fleet_view *ret)
{
    *ret = (struct fleet_view){ .have = 0 };
    if (!strcmp(fleet->engine, "slurm"))
        return slurm_look(fleet, ret);
    if (!strcmp(fleet->engine, "kubernetes"))
        return kubernetes_look(fleet, ret);
    if (!strcmp(fleet->engine, "skypilot"))
        return sky_look(fleet, ret);
    return exec_look(fleet, plan, ret);
}

bool fleet_act(const struct fleet *fleet, uint32_t wanted, const struct fleet_view *view)
{
    if (!strcmp(fleet->engine, "slurm"))
        return slurm_act(fleet, wanted, view);
    if (!strcmp(fleet->engine, "kubernetes"))
        return kubernetes_act(fleet, wanted);
    if (!strcmp(fleet->engine, "skypilot"))
        return sky_act(fleet, wanted, view);
    return true; /* it was told when it was asked */
}
