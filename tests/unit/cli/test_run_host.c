/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas of control groups, of both versions, as files that the kernel would show. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "run_host.h"
#include "tests.h"

static char root[64], self[80];

static void put(const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *c = path + strlen(root) + 1; (c = strchr(c, '/')) != NULL; c++) {
        *c = 0;
        mkdir(path, 0700);
        *c = '/';
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/spotnik-XXXXXX");
    snprintf(self, sizeof(self), "%s/self", mkdtemp(root));
    return 0;
}

static int teardown(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command);
}

static uint32_t all(void)
{
    cpu_set_t set;

    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    return (uint32_t)CPU_COUNT(&set);
}

TEST_WITH(without_a_quota_all_processors, setup, teardown)
{
    assert_int_equal(run_host_processors("/nowhere", "/nowhere"), all());
    put("self", "0::/job/a\n");
    put("job/a/cpu.max", "max 100000\n");
    assert_int_equal(run_host_processors(self, root), all());
    put("cpu/job/cpu.cfs_quota_us", "-1\n");
    put("cpu/job/cpu.cfs_period_us", "100000\n");
    put("self", "3:memory:/x\n1:cpu:/job\n");
    assert_int_equal(run_host_processors(self, root), all());
}

TEST_WITH(the_least_quota_on_the_way_up_counts, setup, teardown)
{
    put("self", "0::/job/a\n");
    put("job/a/cpu.max", "max 100000\n");
    put("job/cpu.max", "150000 100000\n");
    assert_int_equal(run_host_processors(self, root), 1);
    put("job/cpu.max", "10000000 100000\n");
    put("job/a/cpu.max", "50000 100000\n");
    assert_int_equal(run_host_processors(self, root), 1);
}

/* A container sees its own group as the root, whatever path the line names. */
TEST_WITH(a_container_without_the_path_of_the_host, setup, teardown)
{
    put("cpu,cpuacct/cpu.cfs_quota_us", "100000\n");
    put("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put("self", "5:cpuset:/x\n4:cpu,cpuacct:/docker/0123\n");
    assert_int_equal(run_host_processors(self, root), 1);
}

TEST_WITH(gpus, setup, teardown)
{
    char folder[160];

    snprintf(folder, sizeof(folder), "%s/gpus", root);
    assert_int_equal(run_host_gpus(folder), 0); /* no driver */
    put("gpus/0000:01:00.0/information", "Model: one");
    put("gpus/0000:02:00.0/information", "Model: one");
    assert_int_equal(run_host_gpus(folder), 2);
}

TEST_WITH(kills_for_want_of_memory_of_both_versions, setup, teardown)
{
    assert_int_equal(run_host_oom_kills("/nowhere", "/nowhere"), 0);
    put("self", "0::/job/a\n");
    put("job/a/memory.events", "low 0\nhigh 3\nmax 9\noom 4\noom_kill 2\n");
    assert_int_equal(run_host_oom_kills(self, root), 2);
    put("self", "0::/of/the/host\n");
    put("memory.events", "oom_kill 5\n");
    assert_int_equal(run_host_oom_kills(self, root), 5);
    put("self", "4:cpu:/b\n3:memory:/b\n");
    put("memory/b/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n");
    assert_int_equal(run_host_oom_kills(self, root), 7);
}
