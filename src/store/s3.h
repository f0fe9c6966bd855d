/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the S3 store share. Private to the folder. */
#ifndef SPOTNIK_STORE_S3_H
#define SPOTNIK_STORE_S3_H

#include <pthread.h>

#include "store/inside.h"
#include "store/s3_library.h"

#define S3_IDLE_MAX 8 /* connections kept */
#define S3_ETAG_MAX 95
#define S3_IF_ABSENT "If-None-Match: *"

struct s3_credentials {
    char key[129], secret[129];
    char token[4096]; /* "": none */
};

struct s3 {
    struct spotnik_objects store;
    const struct s3_library *library;
    char base[512];       /* the URL of the bucket, without a slash at its end */
    char prefix[512];     /* of all names: "job/" */
    char signing[160];    /* for CURLOPT_AWS_SIGV4 */
    pthread_mutex_t lock; /* of the rest */
    CURL *idle[S3_IDLE_MAX];
    struct s3_credentials credentials;
    uint64_t read_ns; /* when they were read; 0: never, or they have expired */
};

/* A request, and its answer. */
struct s3_request {
    const char *method;
    const char *name;      /* of an object; NULL: the bucket itself */
    const char *query;     /* its keys in order, its values encoded; NULL: none */
    const char *condition; /* a header; NULL: none */
    const void *bytes;     /* what to put */
    size_t size;
    /* Or these instead: `size` bytes of them from `at` on. */
    const struct spotnik_objects_pieces *pieces;
    uint64_t at;
    size_t sent;
    uint64_t large_ns; /* added to the deadlines, for many bytes */
    char *answer;      /* room for what comes back; what is more than that is dropped */
    size_t answer_max, answer_size;
    char said[2048]; /* its beginning: an error, or what a command returns */
    size_t said_size;
    long status; /* of HTTP, 0: no answer came */
    char etag[S3_ETAG_MAX + 1], id[80];
    uint64_t retry_after_ns;
};

/* Send it, and again after what may pass (no answer, 409, 429, 500 to 504), for 10 s and large_ns
 * at most. 0; or
 * -errno, with the reason for spotnik_objects_why(): -ENOENT, -EEXIST (the condition did not hold),
 * -EACCES, -ETIMEDOUT (no answer, or a server that stays busy), -ECANCELED (the pieces are
 * stopped), -EIO. Blocking; any thread. */
int spotnik_s3_request(struct s3 *s3, struct s3_request *request);

/* s3_credentials.c: under the lock, before each attempt. False with the reason set: there are
 * none. */
bool spotnik_s3_credentials_fill(struct s3 *s3);

/* s3_large.c: what to add to the deadlines for that many bytes; and the calls of the same names in
 * store.h. */
uint64_t spotnik_s3_large_ns(uint64_t size);
int spotnik_s3_put_pieces(struct spotnik_objects *store, const char *name,
                          const struct spotnik_objects_pieces *pieces);
int spotnik_s3_get_range(struct spotnik_objects *store, const char *name, uint64_t offset,
                         void *bytes, size_t size, size_t *ret_size);

/* The text of <name> in the XML of an answer; `begin` is "<name>". "": there is none. */
void spotnik_s3_word_find(const struct s3_request *request, const char *begin, char *to,
                          size_t size);

/* False: `from` is NULL, empty, or too long. */
bool spotnik_s3_set(char *to, size_t size, const char *from);

/* s3_role.c: credentials of the role of a web identity; of the container, or else of the virtual
 * machine. False: there is none, or it does not answer. Blocking. */
bool spotnik_s3_from_identity(const struct s3_library *library, struct s3_credentials *to);
bool spotnik_s3_from_machine(const struct s3_library *library, struct s3_credentials *to);

/* s3_list.c: the objects and folders of one page of a listing, without the prefix of the store and
 * the `prefix` behind it. *ret_next: what asks for the
 * next page, "": it was the last. 0, what each() returned, or -EIO: it is no listing. */
int spotnik_s3_page_read(struct s3 *s3, const char *prefix, const char *text, size_t size,
                         int (*each)(void *context, const struct spotnik_object *object),
                         void *context, char *ret_next, size_t next_size);

/* `text` encoded as a part of a URL; slashes too. False: no room. */
bool spotnik_s3_encode(const char *text, char *to, size_t size);

#endif
