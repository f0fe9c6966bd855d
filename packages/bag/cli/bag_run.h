/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik bag: what its parts share. cmd_bag.c understands the command line; bag_loop.c is a
 * worker, bag_slot.c one of its slots, bag_save.c what it saves. bag_supervisor.c starts a
 * program, bag_ask.c asks it for a restart file, bag_tell.c prints how a bag is. */
#ifndef BAG_RUN_H
#define BAG_RUN_H

#include <sys/resource.h>

#include "bag/bag.h"
#include "bag/bag_pace.h"
#include "bag/saves.h"
#include "bag/workers.h"
#include "common/notice_watcher.h"

struct bag_options {
    uint32_t slots, cores; /* jobs at once; cores of each */
    uint64_t grace_ns;     /* from SIGTERM or a notice to SIGKILL */
    uint64_t stale_ns;     /* T */
    uint64_t look_ns;      /* between two looks at the folder and at restart files */
    double usd_per_h;
    struct bag_life life;
    const char *length; /* of a job: a time, or a column in braces; NULL: not known */
    double born_s;      /* age of the machine now; below 0: since it was started */
    bool quiet, wait;   /* wait: stay when all is done, for jobs that are added */
    struct notice_watcher_options notice;
};

/* Start a program: in `directory`, its output in `log`, in a process group of its own. It dies with
 * us. Returns the supervisor's number, which leads the group and ends as the program does; below
 * 0: -errno. */
pid_t bag_supervisor_start(char *const *command, const char *directory, const char *log,
                           const char *const *environment);

/* Send the signal to those processes of the program's group that wait for it. Returns how many. */
uint32_t bag_ask(pid_t group, int number);

enum bag_stage {
    BAG_STAGE_RUNS,
    BAG_STAGE_ASKED,  /* for a restart file */
    BAG_STAGE_TERMED, /* SIGTERM was sent */
    BAG_STAGE_KILLED, /* SIGKILL was sent */
    BAG_STAGE_ENDED,  /* the program has; the folder does not know yet */
};

/* The outputs at the moment of a restart file (bag_file_watcher.c). */
struct bag_mark {
    int alarm, record;       /* watches; below 0: none */
    char file[NAME_MAX + 1]; /* the restart file that was touched last */
    char disturber[NAME_MAX + 1];
    struct bag_outputs *outputs; /* as taken last */
    bool fits;                   /* they are those of `file` */
    bool clean;                  /* nothing else was touched since they were taken */
    bool pending;                /* nothing else was touched since `file`: they can be taken */
    bool disturbed;              /* something else was touched */
    bool mixed; /* something else was touched between the first and the last touch of `file` */
    uint64_t closed_ns; /* when a restart file was last closed or renamed; 0: written to since */
};

struct bag_slot {
    struct bag_job *job; /* NULL: free */
    uint32_t attempt;
    pid_t pid, saver, sender; /* 0: none */
    enum bag_stage stage;
    bool unwanted;                            /* others have done it, or nobody wants it */
    uint64_t started_ns, stage_ns, looked_ns; /* looked: at its restart files */
    struct bag_figures figures;
    /* it was resumed from this one; name "": from the beginning */
    struct bag_save from;
    struct bag_restart restart, saved, saving;
    struct bag_mark mark;
    struct bag_outputs *outputs; /* of the moment of `restart`; NULL: nobody knows */
    bool told_unmarked, told_deaf;
    uint32_t saves;                 /* made by this attempt */
    uint64_t save_begun_ns, due_ms; /* the work at which the next save is due */
    double length_s;                /* of the job; 0: not known */
    /* the work at which the program was asked for a restart file; 0: never */
    uint64_t asked_ms;
    uint64_t asked_wall_ns; /* the same moment by the clock of files */
    uint64_t deaf_ns;       /* when nobody of the program listened; 0: never */
    enum bag_end end;       /* what its end means, once it is judged */
    bool sent, placed;      /* its result is */
};

struct bag_work {
    struct bag bag;
    const struct bag_options *options;
    struct bag_worker self;
    struct bag_watch watch;
    struct bag_slot *slot;
    uint64_t begun_ns, refreshed_ns, looked_ns, told_ns, busy_before_ms;
    uint64_t pause_ns; /* no job is taken before */
    bool broken;       /* the program cannot be run here */
    double write_s;    /* of a save, as measured last; 0: not known, see bag_write_s() */
    uint64_t length_sum_ms, length_count; /* of jobs done here */
    uint32_t done_here;
    bool leaving;   /* SIGTERM, or a notice */
    bool by_notice; /* leaving for a notice, which may not come true */
    uint64_t leave_ns, deadline_ns;
    uint64_t scanned_ns, scan_took_ns; /* the listing of the folder */
    bool trouble;                      /* the folder does not answer, or is full */
    uint64_t trouble_ns;               /* when it last did not; 0: never */
    struct notice_watcher watcher;
    int alarm, record; /* what happens in the directories of programs */
};

uint64_t bag_now_ns(void);
void bag_say(const struct bag_work *work, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The folder does not do what it should: said once, until it does again. Returns false where rc is
 * not 0. */
bool bag_folder_fine(struct bag_work *work, int rc, const char *what);
double bag_write_s(struct bag_work *work);
double bag_machine_age_s(const struct bag_work *work, uint64_t now_ns);

/* ---- bag_slot.c ---- */

/* Run the job, which was claimed just now, in this slot. */
void bag_slot_start(struct bag_work *work, struct bag_slot *slot, struct bag_job *job,
                    uint64_t now_ns);
/* Once in every look: restart files, saves, the end of a job. */
void bag_slot_turn(struct bag_work *work, struct bag_slot *slot, uint64_t now_ns);
/* A child has ended. False: it was not of this slot. */
bool bag_slot_reaped(struct bag_work *work, struct bag_slot *slot, pid_t pid, int status,
                     const struct rusage *usage, uint64_t now_ns);
/* How long this job takes, 0: nobody knows. */
double bag_length_s(const struct bag_work *work, const struct bag_job *job);
uint64_t bag_slot_ran_ms(const struct bag_slot *slot, uint64_t now_ns);
/* Of the job that is there: by earlier attempts, as far as they were saved, and by this one. */
uint64_t bag_slot_work_ms(const struct bag_slot *slot, uint64_t now_ns);
/* Set when its next save is due, in work done; without a programme: at once, whenever it has
 * written one. *ret_expected_s (or NULL): what the programme expects the rest to take. */
void bag_slot_pace(struct bag_work *work, struct bag_slot *slot, uint64_t now_ns,
                   double *ret_expected_s);

/* "FOLDER/PART/JOB@N" */
void bag_attempt_path(const struct bag_work *work, const struct bag_slot *slot, const char *part,
                      char path[PATH_MAX]);

/* ---- bag_save.c ---- */

/* Between two looks: a save that is due, or a restart file that was asked for. */
void bag_slot_save_turn(struct bag_work *work, struct bag_slot *slot, uint64_t now_ns);
/* When bag_slot_save_turn() has something to do before the next look; UINT64_MAX: it has not. */
uint64_t bag_slot_wake_ns(const struct bag_work *work, const struct bag_slot *slot);
/* The process that copied a restart file has ended. */
void bag_slot_save_done(struct bag_work *work, struct bag_slot *slot, bool fine, uint64_t now_ns);
/* The restart file is perhaps another one than `before`: whose outputs are they? */
void bag_slot_outputs_look(struct bag_work *work, struct bag_slot *slot,
                           const struct bag_restart *before);
/* Ask the program for a restart file. False: nobody of it listens. */
bool bag_slot_ask(struct bag_work *work, struct bag_slot *slot, uint64_t done_ms);

/* ---- bag_file_watcher.c ---- */

void bag_file_watcher_open(struct bag_work *work);
/* Before its program starts, and after it has ended. */
void bag_file_watcher_start(struct bag_work *work, struct bag_slot *slot, const char *directory);
void bag_file_watcher_end(struct bag_work *work, struct bag_slot *slot);
/* As soon as work->alarm can be read: take the outputs of restart files that are new. */
void bag_file_watcher_turn(struct bag_work *work);
/* The outputs of the moment of this restart file, which may not have changed since. The caller
 * drops them. NULL: nobody knows. */
struct bag_outputs *bag_file_watcher_outputs(struct bag_work *work, struct bag_slot *slot,
                                             const char *file);

/* ---- bag_loop.c ---- */

/* Work until the bag is done. Returns the exit status. */
int bag_loop(const char *folder, const struct bag_options *options);

/* ---- bag_tell.c ---- */

struct bag_sums {
    size_t jobs, done, aside, dropped, runs, attempts, ends[BAG_ENDS], workers, workers_live;
    double useful_s, spent_s, recomputed_s, cpu_s, up_s, busy_s, slot_s, usd, core_s, expected_s,
        makespan_s;
};
void bag_sum(struct bag *bag, struct bag_sums *ret);
int bag_status(const char *folder, bool json);
int bag_report(const char *folder, bool json);

#endif
