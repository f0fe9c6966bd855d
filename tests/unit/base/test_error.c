/* SPDX-License-Identifier: Apache-2.0 */
/* Every public code has a text of its own; the detail belongs to one thread, is cut and not
 * overrun, leaves errno. */
#include "base/error.h"

#include "spotnik/spotnik.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "tests.h"

static const int codes[] = {
    SPOTNIK_OK,          SPOTNIK_ERR_ARGUMENT, SPOTNIK_ERR_STATE,    SPOTNIK_ERR_MEMORY,
    SPOTNIK_ERR_LIMIT,   SPOTNIK_ERR_PEERS,    SPOTNIK_ERR_KEY,      SPOTNIK_ERR_JOB,
    SPOTNIK_ERR_VERSION, SPOTNIK_ERR_SYSTEM,   SPOTNIK_ERR_MISMATCH, SPOTNIK_ERR_ROOT,
    SPOTNIK_ERR_LEAVING, SPOTNIK_ERR_PARKED,   SPOTNIK_ERR_EXCLUDED, SPOTNIK_ERR_LINEAGE,
    SPOTNIK_ERR_DONE,
};

#define CODE_COUNT (sizeof codes / sizeof codes[0])

TEST(every_code_has_a_text_of_its_own)
{
    const char *unknown = spotnik_strerror(-9999);

    for (size_t i = 0; i < CODE_COUNT; i++) {
        const char *text = spotnik_strerror(codes[i]);
        assert_string_not_equal(text, unknown);
        assert_null(strchr(text, '\n'));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(text, spotnik_strerror(codes[j]));
    }
    assert_ptr_equal(spotnik_strerror(1), unknown);
}

TEST(detail_is_kept_and_errno_left)
{
    errno = ENOENT;
    spotnik_error_set("cannot open %s: %m", "key");
    assert_int_equal(errno, ENOENT);
    assert_string_equal(spotnik_last_error(), "cannot open key: No such file or directory");
    assert_int_equal(spotnik_error_return(SPOTNIK_ERR_KEY, "from %s", spotnik_last_error()),
                     SPOTNIK_ERR_KEY);
    assert_string_equal(spotnik_last_error(), "from cannot open key: No such file or directory");
}

TEST(long_details_are_cut)
{
    char text[5000];

    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    spotnik_error_set("%s", text);
    size_t length = strlen(spotnik_last_error());
    assert_true(length > 100 && length < 1000);
    assert_memory_equal(spotnik_last_error(), text, length);
}

static void *other_thread(void *arg)
{
    (void)arg;
    static char seen[64];

    strncpy(seen, spotnik_last_error(), sizeof seen - 1);
    spotnik_error_set("of the other thread");
    return seen;
}

TEST(threads_do_not_see_each_other)
{
    pthread_t thread;
    void *seen;

    spotnik_error_set("of this thread");
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &seen), 0);
    assert_string_equal(seen, "");
    assert_string_equal(spotnik_last_error(), "of this thread");
}
