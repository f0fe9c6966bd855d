/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: a member goes on only while its place in the directory is its own: a younger founding ends
 * it, and one that was away for long looks before it commits. What it writes there goes where it
 * should and nowhere else. */
#include "runtime/inside.h"
#include "meeting.h"
#include "tests.h"

static bool is_ended(struct seeker *member)
{
    spotnik_step step;
    int rc = spotnik_runtime_step_begin(member->runtime, false, &step);
    if (rc == 0)
        rc = spotnik_runtime_step_commit(member->runtime);
    assert_true(rc == 0 || rc == SPOTNIK_ERR_LINEAGE);
    return rc == SPOTNIK_ERR_LINEAGE;
}

/* A younger founding ends the lineage before, and its checkpoints; an accidental file does not. */
TEST_WITH(a_younger_genesis_ends_us, directory_make, directory_clear)
{
    struct seeker member;
    struct spotnik_record younger = stranger_make(70);
    char path[256];
    founder_start(&member, 1);
    assert_true(spotnik_discovery_is_youngest(member.discovery));
    path_make(path, "genesis-7");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_true(spotnik_discovery_is_youngest(member.discovery));
    assert_false(is_ended(&member));
    unlink(path);
    younger.founding = 123;
    younger.generation = 2;
    struct spotnik_runtime_config config;
    cluster_config(&config, 1);
    assert_int_equal(spotnik_record_write(&config.credentials, &younger, store, "genesis-2", true),
                     0);
    /* at once, for what cannot be taken back */
    assert_false(spotnik_discovery_is_youngest(member.discovery));
    while (!is_ended(&member))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    assert_non_null(strstr(spotnik_last_error(), "genesis-2"));
    assert_false(spotnik_discovery_is_youngest(member.discovery));
    /* it joins that lineage: its checkpoints count */
    spotnik_discovery_founding_set(member.discovery, 123);
    assert_true(spotnik_discovery_is_youngest(member.discovery));
    seeker_close(&member);
}

/* Somebody emptied the folder of a job that was founded more than once, while it could not write,
 * and another job was founded there. */
TEST_WITH(a_founding_of_another_root_ends_us, directory_make, directory_clear)
{
    struct seeker member;
    struct spotnik_record other = stranger_make(70);
    struct spotnik_founding third = { .id = 88, .root = 66, .generation = 3 };
    seek(&member, 1, 10 * SECOND);
    assert_true(member.rc == 0 && member.found);
    spotnik_runtime_found(member.runtime, NULL, &third);
    struct spotnik_runtime_config config;
    cluster_config(&config, 1);
    other.founding = other.root = 123;
    other.generation = 2;
    /* in one: the keeper would find its own genesis-1 to be of another root than 66, and end */
    pthread_mutex_lock(&member.discovery->lock);
    member.discovery->ours = third;
    int rc = spotnik_record_write(&config.credentials, &other, store, "genesis-2", true);
    pthread_mutex_unlock(&member.discovery->lock);
    assert_int_equal(rc, 0);
    while (!is_ended(&member))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    assert_non_null(strstr(spotnik_last_error(), "genesis-2"));
    seeker_close(&member);
}

/* A writer of the folder without the key cannot end a job with the word of another file. */
TEST_WITH(a_copy_says_of_no_job_that_it_is_over, directory_make, directory_clear)
{
    struct seeker member;
    char from[256], to[256], name[64];
    founder_start(&member, 1);
    snprintf(name, sizeof name, SPOTNIK_OVER_NAME, (unsigned long long)member.discovery->ours.id);
    path_make(from, "genesis-1");
    path_make(to, name);
    assert_int_equal(link(from, to), 0);
    assert_false(spotnik_discovery_is_over(member.discovery));
    unlink(to);
    spotnik_discovery_over_set(member.discovery, false);
    assert_true(spotnik_discovery_is_over(member.discovery));
    seeker_close(&member);
}

/* ---- commits ---- */

static uint64_t boot_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/* A founder that waits for a commit for a tenth of a second. */
static void alone_open(struct seeker *member)
{
    seeker_open(member, 1, 0);
    spotnik_runtime_found(member->runtime, NULL, NULL);
    spotnik_runtime_patience_set(member->runtime, SECOND / 10);
}

/* Stopped for longer than others wait: nothing is committed before a look that began after that. */
TEST(one_that_was_stopped_looks_first)
{
    struct seeker member;
    spotnik_step step;
    alone_open(&member);
    uint64_t before_ns = boot_ns();
    spotnik_runtime_looked(member.runtime, before_ns, 3600 * SECOND);
    assert_int_equal(spotnik_runtime_step_begin(member.runtime, false, &step), 0);
    assert_int_equal(spotnik_runtime_step_commit(member.runtime), 0);
    assert_int_equal(spotnik_runtime_step_begin(member.runtime, false, &step), 0);
    spotnik_runtime_looked(member.runtime, before_ns, 2); /* so it was away for longer than that */
    assert_int_equal(spotnik_runtime_step_commit(member.runtime), SPOTNIK_ERR_AGAIN);
    spotnik_runtime_looked(member.runtime, before_ns, 3600 * SECOND); /* a look of before */
    assert_int_equal(spotnik_runtime_step_commit(member.runtime), SPOTNIK_ERR_AGAIN);
    spotnik_runtime_patience_set(member.runtime, 0);
    spotnik_runtime_looked(member.runtime, boot_ns(), 3600 * SECOND);
    assert_int_equal(spotnik_runtime_step_commit(member.runtime), 0);
    spotnik_runtime_free(member.runtime, true);
}

/* As if its majority had been out of reach for `for_ns`; 0: it is back. */
static void park(struct seeker *member, uint64_t for_ns)
{
    spotnik_runtime_lock(member->runtime);
    member->runtime->parked_ns = for_ns == 0 ? 0 : spotnik_clock_ns() - for_ns;
    spotnik_runtime_unlock(member->runtime);
}

/* A member that was parked for long looks before it commits: others may have founded the job. */
TEST(one_that_was_parked_for_long_looks_first)
{
    struct seeker member;
    spotnik_step step;
    alone_open(&member);
    spotnik_runtime_looked(member.runtime, boot_ns(), 3600 * SECOND);
    park(&member, SECOND);
    assert_int_equal(spotnik_runtime_step_begin(member.runtime, false, &step), 0);
    assert_int_equal(spotnik_runtime_step_commit(member.runtime), 0);
    spotnik_runtime_looked(member.runtime, boot_ns(), 4 * SECOND);
    park(&member, 3 * SECOND);
    assert_int_equal(spotnik_runtime_step_begin(member.runtime, false, &step), 0);
    assert_int_equal(spotnik_runtime_step_commit(member.runtime), SPOTNIK_ERR_AGAIN);
    park(&member, 0);
    assert_int_equal(spotnik_runtime_step_commit(member.runtime), SPOTNIK_ERR_AGAIN);
    spotnik_runtime_patience_set(member.runtime, 0);
    spotnik_runtime_looked(member.runtime, boot_ns(), 3600 * SECOND);
    assert_int_equal(spotnik_runtime_step_commit(member.runtime), 0);
    spotnik_runtime_free(member.runtime, true);
}

/* ---- the acceptor of the directory ---- */

TEST_WITH(the_folder_option_is_checked, directory_make, directory_clear)
{
    struct seeker member;
    seeker_open(&member, 1, 0);
    setenv("SPOTNIK_FOLDER", "wetness", 1);
    assert_int_equal(spotnik_discovery_new(spec, member.runtime, &member.discovery),
                     SPOTNIK_ERR_ARGUMENT);
    setenv("SPOTNIK_FOLDER", "witness", 1);
    assert_int_equal(spotnik_discovery_new("127.0.0.1:1", member.runtime, &member.discovery),
                     SPOTNIK_ERR_ARGUMENT);
    unsetenv("SPOTNIK_FOLDER");
    spotnik_runtime_free(member.runtime, true);
}

/* A link where our record is being written would have us write wherever it leads. */
TEST_WITH(records_follow_no_link, directory_make, directory_clear)
{
    struct seeker member;
    struct stat facts;
    char path[256], victim[256], name[128], record_name[64];
    path_make(victim, "victim");
    FILE *file = fopen(victim, "w");
    assert_non_null(file);
    fclose(file);
    seeker_open(&member, 1, 0);
    const struct spotnik_credentials *self = spotnik_runtime_credentials(member.runtime);
    spotnik_record_name(self->self.id, record_name);
    snprintf(name, sizeof name, ".%s.%016llx", record_name, (unsigned long long)self->self.id.low);
    path_make(path, name);
    assert_int_equal(symlink(victim, path), 0);
    assert_int_equal(spotnik_discovery_new(spec, member.runtime, &member.discovery), 0);
    assert_int_equal(stat(victim, &facts), 0);
    assert_int_equal(facts.st_size, 0);
    assert_true(is_there(record_name));
    seeker_close(&member);
}

TEST_WITH(a_directory_of_all_is_warned_of, directory_make, directory_clear)
{
    struct seeker member;
    char text[256];
    assert_int_equal(chmod(directory, 0777), 0);
    seeker_open(&member, 1, 0);
    assert_int_equal(spotnik_discovery_new(spec, member.runtime, &member.discovery), 0);
    spotnik_discovery_warning(member.discovery, text, sizeof text);
    assert_non_null(strstr(text, "chmod o-w"));
    seeker_close(&member);
}

int main(void)
{
    char stale_ms[16];
    snprintf(stale_ms, sizeof stale_ms, "%d", STALE_MS);
    setenv("SPOTNIK_STALE_MS", stale_ms, 1);
    return tests_run(NULL, NULL);
}
