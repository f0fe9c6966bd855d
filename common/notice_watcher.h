/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's watcher for notices: one process, spotnik-notice, for each agent, and what its lines
 * mean for the workers. Decides when the workers leave for a notice and when they come
 * back, because the machine was not taken away after all. The agent does it. */
#ifndef SPOTNIK_COMMON_NOTICE_WATCHER_H
#define SPOTNIK_COMMON_NOTICE_WATCHER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/notice.h"

#define NOTICE_WATCHER_FROM 8
#define NOTICE_WATCHER_SOURCES 8

struct notice_watcher_options {
    const char *from[NOTICE_WATCHER_FROM]; /* as spotnik notice takes them */
    uint32_t count;                        /* 0: no watcher */
    uint64_t patience_ns; /* still here so long after the deadline: the notice lied */
    const char *hook;     /* a command to run for each notice; NULL: none */
};

struct notice_watcher {
    const struct notice_watcher_options *options;
    pid_t pid; /* 0: no watcher */
    int fd;
    char line[2048];
    size_t used;
    char standing[NOTICE_WATCHER_SOURCES][16]; /* sources that want us gone; "": free */
    bool away;                                 /* the workers were asked to leave for a notice */
    uint64_t back_ns;                          /* when they come back although the notice stands */
};

enum notice_watcher_act { NOTICE_WATCHER_NOTHING, NOTICE_WATCHER_LEAVE, NOTICE_WATCHER_BACK };

/* Start the watcher. False: errno, ENOENT where spotnik-notice is not installed. The agent goes on
 * without. */
bool notice_watcher_start(struct notice_watcher *watcher,
                          const struct notice_watcher_options *options);
void notice_watcher_end(struct notice_watcher *watcher);

/* The next line of the watcher, without blocking. False: none. */
bool notice_watcher_next(struct notice_watcher *watcher, struct notice *ret);

/* What a notice is to be answered with. `wall_ms`: now, since 1970. */
enum notice_watcher_act notice_watcher_heed(struct notice_watcher *watcher,
                                            const struct notice *notice, uint64_t now_ns,
                                            int64_t wall_ms);

/* The patience with a notice is over. */
bool notice_watcher_lied(struct notice_watcher *watcher, uint64_t now_ns);

/* Have the user's command run, with the notice in its environment. */
void notice_watcher_hook(const struct notice_watcher *watcher, const struct notice *notice);

#endif
