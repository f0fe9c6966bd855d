/* SPDX-License-Identifier: Apache-2.0 */
/* What the stores that are buckets share: requests over HTTP, sent again until their time is over,
 * listings in XML, large objects in parts. A service says how requests are worded and signed.
 * Private to the folder. */
#ifndef SPOTNIK_STORE_BUCKET_H
#define SPOTNIK_STORE_BUCKET_H

#include <pthread.h>

#include "store/bucket_library.h"
#include "store/inside.h"

#define BUCKET_IDLE_MAX 8 /* connections kept */
#define BUCKET_VERSION_MAX 95
#define BUCKET_PAGE_MAX 2047 /* of the token for a listing's next page; no service states a limit */
#define BUCKET_QUERY_MAX 8192 /* that token and a prefix, encoded */
#define BUCKET_URL_MAX (3000 + BUCKET_QUERY_MAX)
#define BUCKET_TOKEN_MAX 4096

struct bucket;
struct bucket_request;

/* What signs requests: a key with its secret, a token, or both. */
struct bucket_credentials {
    char key[129], secret[129];
    char token[BUCKET_TOKEN_MAX]; /* "": none */
    uint64_t renew_after_ns;
};

/* A request on its way. */
struct bucket_message {
    CURL *easy;
    struct curl_slist *headers;
    char url[BUCKET_URL_MAX];
};

/* The names of elements in a listing. */
struct bucket_listing {
    const char *root, *object, *folder, *name, *folder_name, *size, *written, *next;
};

/* An object that is put in parts. */
struct bucket_upload {
    struct bucket *bucket;
    const char *name;
    const struct spotnik_objects_pieces *pieces;
    uint64_t size, chunk;
    char id[1600];                        /* encoded; a server chooses it */
    char (*etag)[BUCKET_VERSION_MAX + 1]; /* of each part */
};

/* What differs from one service of buckets to the other. Queries have their keys in order, and
 * their values are encoded. */
struct bucket_service {
    const char *scheme, *usage;       /* "s3://"; how to write one, for an error */
    const char *characters;           /* of a bucket's name */
    const char *no_credentials;       /* what to set when there are none */
    const char *if_absent, *if_match; /* headers; a version follows the second */
    const char *no_version;           /* the version of no object */
    const char *version_header, *id_header;
    const char *exists_code; /* of a 409: the condition did not hold; NULL: none */
    struct bucket_listing listing;
    /* Fill base and account. False: something is missing or too long. */
    bool (*base_make)(struct bucket *bucket, const char *name);
    /* Blocking. False, perhaps with the reason set: there are none. */
    bool (*credentials_find)(const struct bucket *bucket, struct bucket_credentials *to);
    /* Add what proves the credentials. False with the reason set: they are of no use. */
    bool (*sign)(const struct bucket *bucket, const struct bucket_request *request,
                 const struct bucket_credentials *credentials, struct bucket_message *message);
    int (*list_query)(const char *prefix, const char *token, char *query, size_t size);
    /* The first and the last of these: NULL where a service needs none. */
    int (*upload_begin)(struct bucket_upload *upload);
    void (*part_query)(const struct bucket_upload *upload, uint32_t number, char *query,
                       size_t size);
    int (*upload_end)(struct bucket_upload *upload, uint32_t parts);
    void (*upload_abort)(struct bucket_upload *upload);
};

extern const struct bucket_service spotnik_s3_service, spotnik_gcs_service, spotnik_azure_service;

struct bucket {
    struct spotnik_objects store;
    const struct bucket_service *service;
    const struct bucket_library *library;
    char base[512];       /* the URL of the bucket, without a slash at its end */
    char prefix[512];     /* of all names: "job/" */
    char account[160];    /* S3: for CURLOPT_AWS_SIGV4 */
    pthread_mutex_t lock; /* of the rest */
    CURL *idle[BUCKET_IDLE_MAX];
    struct bucket_credentials credentials;
    uint64_t renew_ns; /* when to look for others; 0: there are none */
    bool have_expired;
    char put_name[SPOTNIK_OBJECTS_NAME_MAX + 1]; /* the object put last, */
    char put_version[BUCKET_VERSION_MAX + 1];    /* and its version; "": not known */
};

/* A request, and its answer. */
struct bucket_request {
    const char *method;
    const char *name;      /* of an object; NULL: the bucket itself */
    const char *query;     /* NULL: none */
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
    char etag[BUCKET_VERSION_MAX + 1], version[BUCKET_VERSION_MAX + 1], id[80], date[40];
    uint64_t retry_after_ns;
    const struct bucket_service *service; /* set by the call, as all below `size` */
};

/* Send it, and again after what may pass (no answer, 409, 429, 500, 502 to 504), for 10 s and
 * large_ns at most. 0; or -errno, with the reason for spotnik_objects_why(): -ENOENT, -EEXIST (the
 * condition did not hold), -EACCES, -ETIMEDOUT (no answer, or a server that stays busy), -ECANCELED
 * (the pieces are stopped), -EIO. Blocking; any thread. */
int spotnik_bucket_request(struct bucket *bucket, struct bucket_request *request);

/* bucket_clock.c: Unix time by this machine's clock; a date as HTTP has it; and a clause for the
 * error, "": the clocks agree. */
int64_t spotnik_bucket_now_s(void);
void spotnik_bucket_date_write(int64_t at_s, char text[40]);
void spotnik_bucket_clocks_compare(const struct bucket *bucket,
                                   const struct bucket_request *request, char *text, size_t size);

/* The text of <name> in the XML of an answer; `begin` is "<name>". "": there is none. */
void spotnik_bucket_word_find(const struct bucket_request *request, const char *begin, char *to,
                              size_t size);

/* bucket_credentials.c: those that sign the next request. False with the reason set: there are
 * none. Under the lock; blocking. */
bool spotnik_bucket_credentials_fill(struct bucket *bucket);

/* False: `from` is NULL, empty, or too long. */
bool spotnik_bucket_set(char *to, size_t size, const char *from);

/* bucket->base: the bucket of that name at `endpoint`. False: it is too long. */
bool spotnik_bucket_base_set(struct bucket *bucket, const char *endpoint, const char *name);

/* A variable of the environment. NULL: unset or empty. */
const char *spotnik_bucket_variable(const char *name);

/* The first line of a file. False: it cannot be read, or is empty. */
bool spotnik_bucket_line_read(const char *path, char line[BUCKET_TOKEN_MAX]);

/* bucket_transfer.c: one transfer by libcurl. */
void spotnik_bucket_transfer_set(const struct bucket *bucket, struct bucket_request *request,
                                 CURL *easy, uint64_t left_ns);
bool spotnik_bucket_is_stopped(const struct bucket_request *request);
void spotnik_bucket_header_add(const struct bucket *bucket, struct bucket_message *message,
                               const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The digest by `name` ("SHA256") of what the request sends. Returns its size; 0: OpenSSL does not
 * make it. */
size_t spotnik_bucket_digest(const struct bucket_request *request, const char *name,
                             unsigned char digest[64]);

/* `text` encoded as a part of a URL; slashes too. False: no room. */
bool spotnik_bucket_encode(const char *text, char *to, size_t size);

/* bucket_large.c: what to add to the deadlines for that many bytes; and the calls of the same names
 * in store.h. */
uint64_t spotnik_bucket_large_ns(uint64_t size);
int spotnik_bucket_put_pieces(struct spotnik_objects *store, const char *name,
                              const struct spotnik_objects_pieces *pieces);
int spotnik_bucket_get_range(struct spotnik_objects *store, const char *name, uint64_t offset,
                             void *bytes, size_t size, size_t *ret_size);

/* Send the request that makes one object of the parts: `begin`, each part's line, `end`. */
struct bucket_ending {
    const char *method, *query, *begin, *end;
    void (*line)(const struct bucket_upload *upload, uint32_t number, char *to, size_t size);
};
int spotnik_bucket_upload_end(struct bucket_upload *upload, uint32_t parts,
                              const struct bucket_ending *ending);

/* bucket_list.c: the calls of the same names in store.h. */
int spotnik_bucket_walk(struct spotnik_objects *store, const char *prefix,
                        int (*each)(void *context, const struct spotnik_object *object),
                        void *context);
int spotnik_bucket_list(struct spotnik_objects *store, int (*each)(void *context, const char *name),
                        void *context);

/* bucket_ask.c: a question to a service of credentials, for 3 s where it is busy. The reply is
 * filled when it answers. False, with the reason set: it does not answer with 200. */
struct bucket_question {
    const char *method, *url;
    const char *header, *body; /* NULL: none */
    bool far;                  /* a proxy may be on the way */
};
struct bucket_reply {
    char text[8192];
    size_t size;
};
bool spotnik_bucket_ask(const struct bucket_library *library,
                        const struct bucket_question *question, struct bucket_reply *reply);

#endif
