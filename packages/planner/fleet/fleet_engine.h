/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik fleet: what its parts share. An engine is asked how many machines it has and told how
 * many are wanted; it alone makes and ends them. */
#ifndef SPOTNIK_PLANNER_FLEET_ENGINE_H
#define SPOTNIK_PLANNER_FLEET_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#define FLEET_MAX 4096

#define FLEET_KINDS 8

/* Machines of one kind, as spotnik plan --running names it: "TYPE[@ZONE]=spot". */
struct fleet_kind {
    char name[120];
    uint32_t count;
};

/* What a plan wants. */
struct fleet_plan {
    uint32_t machines; /* of all kinds */
    double chance;     /* of being in time and in budget; negative: the plan does not say */
    uint32_t kind_count;
    struct fleet_kind kind[FLEET_KINDS];
};

struct fleet {
    const char *engine; /* slurm, kubernetes, skypilot, exec:COMMAND */
    const char *folder; /* of spotnik slurm submit; its lock and its end are there */
    const char *name;   /* of the Kubernetes job, or of SkyPilot's jobs */
    const char *plan;   /* file, or NULL */
    const char *replan; /* command that writes it, or NULL */
    uint32_t fixed;     /* without a plan; 0: with one */
    uint64_t every_ns, replan_ns;
    bool replan_every; /* it was given */
    bool once;
};

/* What an engine says. */
struct fleet_view {
    uint32_t have;       /* machines that run, or were asked for */
    uint32_t running;    /* of them */
    bool done;           /* the training is */
    uint32_t kind_count; /* 0: the engine does not tell kinds apart */
    struct fleet_kind kind[FLEET_KINDS];
    char why[200]; /* the last loss in the engine's words; "" where it knows none */
};

/* False: it could not be asked, and said why on standard error. Nothing is done then. */
bool fleet_look(const struct fleet *fleet, const struct fleet_plan *plan, struct fleet_view *ret);
/* Ask for `wanted` machines where there are `view->have`. */
bool fleet_act(const struct fleet *fleet, uint32_t wanted, const struct fleet_view *view);

/* A command and its whole output, at most `size` bytes with a final 0. Returns its exit status, -1:
 * it could not be run. */
int fleet_command(const char *command, char *output, uint32_t size);

/* What the plan wants; 0: it cannot be read, ret_error says why. A file with a number, or what
 * spotnik plan -o json prints. */
uint32_t fleet_plan_read(const char *path, struct fleet_plan *ret, char *ret_error, uint32_t size);
/* The kinds that are there and wanted, as options of spotnik plan: "--running TYPE=spot:2/4
 * ...". */
void fleet_running(const struct fleet_plan *plan, const struct fleet_view *view, char *text,
                   uint32_t size);

#endif
