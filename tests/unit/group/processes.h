/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of a group, forked by a test. Test code only. */
#ifndef TESTS_UNIT_GROUP_PROCESSES_H
#define TESTS_UNIT_GROUP_PROCESSES_H

#include <stdint.h>
#include <sys/types.h>

/* A name that no other group has, and no other run of the test. */
void group_name(char name[64]);

/* A child that ends with what `run` returns. It ends with the test, whatever happens. */
pid_t process_start(int (*run)(void *context, uint32_t rank), void *context, uint32_t rank);

/* Wait for it: its exit status, or minus the signal that ended it. */
int process_end(pid_t pid);

/* In a child: cmocka's assertions belong to the process of the test. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %u, line %d: %s: %s\n", (unsigned)rank, __LINE__, #condition,    \
                    spotnik_last_error());                                                         \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

#endif
