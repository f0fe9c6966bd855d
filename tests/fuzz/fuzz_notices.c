/* SPDX-License-Identifier: Apache-2.0 */
/* What clouds, commands and files say of a notice, and what the watcher tells the agent. The first
 * byte says who speaks. Of what is understood comes one line, which reads as the same notice. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "fuzz.h"
#include "notice/words.h"

#define NOW_MS INT64_C(1587748180000)

static void tell(const struct notice *notice)
{
    char line[1024];
    struct notice again;
    size_t length = notice_format(notice, line, sizeof line);

    SPOTNIK_ASSERT(memchr(notice->text, '\0', sizeof notice->text));
    if (length == 0)
        return;
    SPOTNIK_ASSERT(!strchr(line, '\n') && notice_parse(line, &again));
    SPOTNIK_ASSERT(again.kind == notice->kind && again.deadline_ms == notice->deadline_ms);
}

static bool understand(char who, const char *said, struct notice *notice)
{
    switch (who) {
    case 'a':
        return notice_aws_action(said, NOW_MS, notice);
    case 'r':
        return notice_aws_rebalance(said, notice);
    case 'p':
        return notice_gcp_preempted(said, NOW_MS, notice);
    case 'm':
        return notice_gcp_maintenance(said, NOW_MS, notice);
    case 'z':
        return notice_azure_events(said, "own", NOW_MS, notice);
    case 'e':
        notice_words("exec", said, NOW_MS, notice);
        return true;
    }
    return notice_parse(said, notice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct notice notice = { .kind = NOTICE_NONE };

    if (size == 0)
        return 0;
    char *said = malloc(size);
    SPOTNIK_ASSERT(said);
    memcpy(said, data + 1, size - 1);
    said[size - 1] = '\0';
    if (understand((char)data[0], said, &notice) && notice.kind != NOTICE_NONE)
        tell(&notice);
    free(said);
    return 0;
}
