/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's ear for notices: one watcher process per agent, whatever the number of workers, and
 * what its lines mean for them. Decides when the workers leave for a notice and when they come
 * back, because the machine was not taken away after all; run_loop.c does it. */
#ifndef SPOTNIK_CLI_RUN_NOTICE_H
#define SPOTNIK_CLI_RUN_NOTICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "notice/notice.h"

#define RUN_NOTICE_FROM 8
#define RUN_NOTICE_SOURCES 8

struct run_notice_options {
    const char *from[RUN_NOTICE_FROM]; /* as spotnik notice takes them */
    uint32_t count;                    /* 0: no watcher */
    uint64_t patience_ns;              /* still here so long after the deadline: the notice lied */
    const char *hook;                  /* a command to run for each notice; NULL: none */
};

struct run_notice {
    const struct run_notice_options *options;
    pid_t pid; /* 0: no watcher */
    int fd;
    char line[2048];
    size_t used;
    char standing[RUN_NOTICE_SOURCES][16]; /* sources that want us gone; "": free */
    bool away;                             /* the workers were asked to leave for a notice */
    uint64_t back_ns;                      /* when they come back although the notice stands */
};

enum run_notice_act { RUN_NOTICE_NOTHING, RUN_NOTICE_LEAVE, RUN_NOTICE_BACK };

/* Start the watcher. False: errno. The agent goes on without. */
bool run_notice_start(struct run_notice *ear, const struct run_notice_options *options);
void run_notice_end(struct run_notice *ear);

/* The next line of the watcher, without blocking. False: none. */
bool run_notice_next(struct run_notice *ear, struct notice *ret);

/* What a notice is to be answered with. `wall_ms`: now, since 1970. */
enum run_notice_act run_notice_heed(struct run_notice *ear, const struct notice *notice,
                                    uint64_t now_ns, int64_t wall_ms);

/* The patience with a notice is over. */
bool run_notice_lied(struct run_notice *ear, uint64_t now_ns);

/* Have the user's command run, with the notice in its environment. */
void run_notice_hook(const struct run_notice *ear, const struct notice *notice);

#endif
