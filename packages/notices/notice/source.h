/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share: a source, and the watch that it belongs to. Private to the
 * folder. */
#ifndef NOTICE_SOURCE_H
#define NOTICE_SOURCE_H

#include "http.h"
#include "words.h"
#include "notice_watch.h"

#define NOTICE_NEVER UINT64_MAX
#define NOTICE_MS UINT64_C(1000000)
#define NOTICE_S (1000 * NOTICE_MS)
/* Patience of the first look for a cloud; a machine of a cloud answers in a few ms. */
#define NOTICE_SEEK_MS 250
#define NOTICE_ANSWER_MS 3000

enum notice_presence { NOTICE_SEEKING, NOTICE_PRESENT, NOTICE_ABSENT };

struct notice_source {
    char name[16]; /* of its own: two files are file and file-2 */
    struct notice_watch *watch;
    void (*due)(struct notice_source *source);      /* its time has come */
    void (*readable)(struct notice_source *source); /* its fd has something; NULL: it has none */
    void (*free)(struct notice_source *source);
    uint64_t due_ns;      /* NOTICE_NEVER: it waits for an answer, or is not there */
    uint64_t interval_ns; /* between two looks */
    enum notice_presence presence;
    bool wanted; /* the user named it: look for ever */
    bool answered;
    uint32_t seeks, failures;
    bool standing; /* a notice to leave */
    char told[200], risk[200];
    char base[300]; /* of URLs */
    void *own;
};

struct notice_watch {
    struct notice_http *http; /* made for the first question; NULL: not yet, or not possible */
    int epoll;
    uint32_t count;
    struct notice_source source[NOTICE_SOURCES_MAX];
    uint64_t interval_ns;
    notice_teller *tell;
    void *context;
};

/* ---- one file each: fill in what the source is; false: no memory ---- */
bool notice_aws_open(struct notice_source *source);
bool notice_gcp_open(struct notice_source *source, bool maintenance);
bool notice_azure_open(struct notice_source *source);
bool notice_exec_open(struct notice_source *source, const char *command);
bool notice_file_open(struct notice_source *source, const char *path);

/* ---- notice_watch.c ---- */
uint64_t notice_clock_ns(void);
int64_t notice_wall_ms(void);

/* The source has looked: this is what it saw. What is not new is not told again. */
void notice_source_say(struct notice_source *source, const struct notice *seen);
/* Look again after `after_ns`, give or take a tenth. */
void notice_source_again(struct notice_source *source, uint64_t after_ns);
/* It is not there, or does not answer: again later, or never. */
void notice_source_missing(struct notice_source *source);
void notice_source_found(struct notice_source *source);
/* Ask its metadata service. When that is not possible the source is as if it did not answer. */
void notice_source_ask(struct notice_source *source, const struct notice_question *question,
                       notice_answered *answered);
void notice_source_listen(struct notice_source *source, int fd);
void notice_source_unlisten(struct notice_source *source, int fd);

#endif
