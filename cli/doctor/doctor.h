/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik doctor: what its parts share. Each finding is one line: what was looked at, what was
 * seen, and what to do about it. */
#ifndef SPOTNIK_CLI_DOCTOR_H
#define SPOTNIK_CLI_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/runtime.h"

#define DOCTOR_PORT 21299
#define DOCTOR_PROBE "doctor-" /* files of ours in a folder begin with this */

enum doctor_verdict { DOCTOR_FINE, DOCTOR_WARNING, DOCTOR_BAD };

struct doctor {
    const char *peers, *key_file, *job, *checkpoint, *bind; /* NULL: not given */
    struct spotnik_credentials credentials;
    bool has_key;
    char folder[4096]; /* of --peers file:DIR; "": none */
    uint32_t bad;
};

/* Say one finding and count it. */
void doctor_say(struct doctor *doctor, enum doctor_verdict verdict, const char *about,
                const char *format, ...) __attribute__((format(printf, 4, 5)));

/* doctor_here.c: this host alone. */
void doctor_look_here(struct doctor *doctor);

/* doctor_bucket.c: is a bucket a place for a job? `use`: "peers bucket" or "checkpoints".
 * */
void doctor_look_bucket(struct doctor *doctor, const char *use, const char *where);

/* doctor_folder.c: is it a folder for a job? `use`: "peers folder" or "checkpoints". */
void doctor_look_folder(struct doctor *doctor, const char *use, const char *path);
/* A file of ours in it, made or replaced as the library does it. False: errno. */
bool doctor_probe_write(const char *folder, const char *name, const char *text);

/* doctor_there.c: another host on which spotnik doctor --serve runs. */
void doctor_look_there(struct doctor *doctor, const char *where);

/* doctor_clock.c: what one question and its answer say of a clock. */
struct doctor_ping {
    uint64_t took_ns;           /* from the question to the answer */
    int64_t theirs_ms, ours_ms; /* the other host's clock as it answered; ours at the answer */
};

/* How far the other host's clock is ahead of ours, give or take `*ret_doubt_ms`. */
int64_t doctor_clock_apart_ms(const struct doctor_ping *ping, uint32_t count,
                              int64_t *ret_doubt_ms);

/* doctor_serve.c: be that host, until a signal comes. Returns the exit status. */
int doctor_serve(struct doctor *doctor);

/* ---- what the two say to each other, over a connection that has proven the key ---- */

/* All of it, `out` or in. False: the connection has ended. */
bool doctor_move(int fd, void *bytes, size_t size, bool out);

#define DOCTOR_MAGIC UINT32_C(0x72636f64)
#define DOCTOR_BULK_MAX (1u << 20)

enum doctor_question {
    DOCTOR_PING = 1, /* -> doctor_reply.wall_ms */
    DOCTOR_BULK,     /* `bytes` follow; -> as many */
    DOCTOR_LOOK,     /* `text` names a probe; -> what is in it, or bytes == 0: no such file */
    DOCTOR_SELF,     /* -> the name of the host, its folder in `text` */
};

struct doctor_message {
    uint32_t magic, what;
    uint64_t bytes;
    int64_t wall_ms;
    char text[256];
};

#endif
