/* SPDX-License-Identifier: Apache-2.0 */
/* What a process reads before it has found its job. The first byte says what the rest is: `r` a
 * record of the peers folder, behind its MAC; `a` the answer of a member; `p` SPOTNIK_PEERS; `k` a
 * key file. What is accepted comes back the same from what is written of it. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/key.h"
#include "base/assert.h"
#include "discovery/record.h"
#include "discovery/spec.h"
#include "link/answer.h"
#include "fuzz.h"

#define NAME "member-00000000000000010000000000000002"
#define TEXT_MAX 4096

/* No name is looked up: the linker takes this in place of the C library's. */
int getaddrinfo(const char *restrict node, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict ret)
{
    (void)node, (void)service, (void)hints, (void)ret;
    return EAI_NONAME;
}

static void record(const uint8_t *data, size_t size)
{
    static uint8_t key[32];
    struct spotnik_credentials self = { .key = key, .observes = true };
    struct spotnik_record found, again;
    char text[SPOTNIK_RECORD_BYTES];

    if (spotnik_record_parse(&self, NAME, (const char *)data, size, &found)
        != SPOTNIK_READING_RECORD)
        return;
    size_t written = spotnik_record_format(&self, NAME, &found, text);
    self.observes = false;
    SPOTNIK_ASSERT(written > 0);
    SPOTNIK_ASSERT(spotnik_record_parse(&self, NAME, text, written, &again)
                   == SPOTNIK_READING_RECORD);
    SPOTNIK_ASSERT(spotnik_id_equal(found.member.id, again.member.id));
    SPOTNIK_ASSERT(found.epoch == again.epoch && found.counter == again.counter
                   && found.member.port == again.member.port);
}

static void answer(const uint8_t *data, size_t size)
{
    struct spotnik_answer found;
    uint8_t again[SPOTNIK_ANSWER_BYTES];

    if (size != SPOTNIK_ANSWER_BYTES || !spotnik_answer_decode(data, &found))
        return;
    spotnik_answer_encode(&found, again);
    SPOTNIK_ASSERT(memcmp(data, again, sizeof again) == 0);
}

static void peers(const uint8_t *data, size_t size)
{
    static struct spotnik_discovery_spec spec;
    char *text = malloc(size + 1);

    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    if (spotnik_discovery_spec_parse(text, NULL, &spec) == 0)
        SPOTNIK_ASSERT(spec.count <= SPOTNIK_DISCOVERY_LISTED_MAX);
    free(text);
}

static void key(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/spotnik-fuzz-XXXXXX";
    uint8_t found[SPOTNIK_KEY_BYTES];
    bool observes;
    int fd = mkstemp(path);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    if (spotnik_key_read_to_ask(path, found, &observes) == 0)
        SPOTNIK_ASSERT(spotnik_key_read(path, found) == (observes ? SPOTNIK_ERR_ARGUMENT : 0));
    close(fd);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > TEXT_MAX)
        return 0;
    switch (data[0]) {
    case 'r':
        record(data + 1, size - 1);
        break;
    case 'a':
        answer(data + 1, size - 1);
        break;
    case 'p':
        peers(data + 1, size - 1);
        break;
    case 'k':
        key(data + 1, size - 1);
        break;
    }
    return 0;
}
