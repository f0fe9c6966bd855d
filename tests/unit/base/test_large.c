/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: memory of any size can be filled and freed; many megabytes ask for large pages, where the
 * kernel has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/large.h"

static void test_sizes(void **state)
{
    static const size_t sizes[] = { 0, 1, 4095, 4097, (2 << 20) - 1, (4 << 20) + 1, 9 << 20 };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *memory = spotnik_large_alloc(sizes[i]);

        assert_non_null(memory);
        assert_int_equal((size_t)memory % 4096, 0);
        memset(memory, 1, sizes[i]);
        free(memory);
    }
    assert_null(spotnik_large_alloc(SIZE_MAX));
    assert_null(spotnik_large_alloc(SIZE_MAX - 8192));
}

/* What the kernel says of the mapping that has this byte. */
static bool has_flag(const void *byte, const char *flag)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[600];
    size_t begin, end;
    bool here = false, has = false;

    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "%zx-%zx ", &begin, &end) == 2)
            here = (size_t)byte >= begin && (size_t)byte < end;
        else if (here && strncmp(line, "VmFlags:", 8) == 0)
            has |= strstr(line, flag) != NULL;
    fclose(file);
    return has;
}

static void test_large_pages(void **state)
{
    (void)state;
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) != 0)
        skip();
    char *memory = spotnik_large_alloc(16 << 20);

    assert_non_null(memory);
    assert_true(has_flag(memory + (8 << 20), " hg"));
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_large_pages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
