/* SPDX-License-Identifier: Apache-2.0 */
/* Key files. Claims: what is made can be read; a file that others can read, or that holds anything
 * but 64 hex digits, is refused; nothing is ever overwritten. A key that was given signs
 * checkpoints; one that says that it was made for one run signs none. An observer key is none of a
 * member. Rotated, a file has a new key and the one before, never more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/key.h"
#include "spotnik/spotnik.h"
#include "tests.h"

static char dir[64], path[96];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/spotnik-key-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/key", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static void put(const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

TEST_WITH(make_and_read, setup, teardown)
{
    uint8_t key[SPOTNIK_KEY_BYTES], again[SPOTNIK_KEY_BYTES];
    struct stat facts;

    assert_int_equal(spotnik_key_create(path), 0);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(facts.st_size, 65);
    assert_int_equal(spotnik_key_read(path, key), 0);
    assert_int_equal(spotnik_key_create(path), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_key_read(path, again), 0);
    assert_memory_equal(key, again, sizeof key);
}

TEST_WITH(refused, setup, teardown)
{
    static const char digits[] = "00112233445566778899aabbccddeeffAABBCCDDEEFF00112233445566778899";
    uint8_t key[SPOTNIK_KEY_BYTES];
    char text[128];

    assert_int_equal(spotnik_key_read(path, key), SPOTNIK_ERR_SYSTEM);
    put(digits, 0600);
    assert_int_equal(spotnik_key_read(path, key), 0);
    assert_int_equal(key[1], 0x11);
    assert_int_equal(key[16], 0xaa);
    for (int mode = 0601; mode <= 0677; mode++) {
        put(digits, (mode_t)mode);
        assert_int_equal(spotnik_key_read(path, key), mode & 077 ? SPOTNIK_ERR_ARGUMENT : 0);
    }
    for (size_t cut = 0; cut < 64; cut++) {
        snprintf(text, sizeof text, "%.*s", (int)cut, digits);
        put(text, 0600);
        assert_int_equal(spotnik_key_read(path, key), SPOTNIK_ERR_ARGUMENT);
    }
    snprintf(text, sizeof text, "%s0", digits);
    put(text, 0600);
    assert_int_equal(spotnik_key_read(path, key), SPOTNIK_ERR_ARGUMENT);
    memcpy(text, digits, 65);
    text[20] = 'g';
    put(text, 0600);
    assert_int_equal(spotnik_key_read(path, key), SPOTNIK_ERR_ARGUMENT);
    memset(text, '0', 64);
    text[64] = '\0';
    put(text, 0600);
    assert_int_equal(spotnik_key_read(path, key), SPOTNIK_ERR_ARGUMENT);
    assert_non_null(strstr(spotnik_last_error(), "all zeros"));
    text[63] = '1';
    put(text, 0600);
    assert_int_equal(spotnik_key_read(path, key), 0);
}

TEST_WITH(of_one_run, setup, teardown)
{
    static const char digits[] = "00112233445566778899aabbccddeeffAABBCCDDEEFF00112233445566778899";
    struct spotnik_signer given[2], made[2];
    uint8_t key[SPOTNIK_KEY_BYTES];
    char text[128];

    assert_int_equal(spotnik_key_create_for_run(path), 0);
    assert_int_equal(spotnik_key_read(path, key), 0);
    assert_int_equal(spotnik_key_signer(path, made), 0);
    assert_false(made[0].has_key);
    unlink(path);
    put(digits, 0600);
    assert_int_equal(spotnik_key_signer(path, given), 0);
    assert_true(given[0].has_key);
    snprintf(text, sizeof text, "%s\nmade\n", digits);
    put(text, 0600);
    assert_int_equal(spotnik_key_signer(path, made), 0);
    assert_false(made[0].has_key || made[0].name[0]);
    snprintf(text, sizeof text, "%s\nmade or not\n", digits);
    put(text, 0600);
    assert_int_equal(spotnik_key_signer(path, made), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_key_signer(NULL, made), 0);
    assert_false(made[0].has_key);
}

TEST_WITH(rotated, setup, teardown)
{
    uint8_t first[SPOTNIK_KEY_BYTES], pair[SPOTNIK_KEY_PAIR_BYTES], again[SPOTNIK_KEY_PAIR_BYTES];
    struct spotnik_signer before[2], after[2];
    struct stat facts;
    bool has_old = true;

    assert_int_equal(spotnik_key_rotate(path), SPOTNIK_ERR_SYSTEM);
    assert_int_equal(spotnik_key_create(path), 0);
    assert_int_equal(spotnik_key_read_pair(path, pair, &has_old), 0);
    assert_false(has_old);
    memcpy(first, pair, sizeof first);
    assert_int_equal(spotnik_key_signer(path, before), 0);
    assert_null(before[0].old);
    assert_int_equal(spotnik_key_rotate(path), 0);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(spotnik_key_read_pair(path, pair, &has_old), 0);
    assert_true(has_old);
    assert_memory_not_equal(pair, first, sizeof first);
    assert_memory_equal(pair + sizeof first, first, sizeof first);
    assert_int_equal(spotnik_key_signer(path, after), 0);
    assert_ptr_equal(spotnik_signer_named(after, before[0].name), after + 1);
    assert_ptr_equal(spotnik_signer_named(after, after[0].name), after);
    assert_memory_equal(after[1].key, before[0].key, sizeof before[0].key);
    assert_int_equal(spotnik_key_rotate(path), 0);
    assert_int_equal(spotnik_key_read_pair(path, again, &has_old), 0);
    assert_memory_equal(again + sizeof first, pair, sizeof first);
}

/* A key of one run is not rotated, and what cannot be written leaves the file as it was. */
TEST_WITH(not_rotated, setup, teardown)
{
    uint8_t key[SPOTNIK_KEY_BYTES], again[SPOTNIK_KEY_BYTES];
    char beside[112];

    assert_int_equal(spotnik_key_create_for_run(path), 0);
    assert_int_equal(spotnik_key_rotate(path), SPOTNIK_ERR_ARGUMENT);
    unlink(path);
    assert_int_equal(spotnik_key_create(path), 0);
    assert_int_equal(spotnik_key_read(path, key), 0);
    snprintf(beside, sizeof beside, "%s.new", path);
    assert_int_equal(spotnik_key_create(beside), 0);
    assert_int_equal(spotnik_key_rotate(path), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_key_read(path, again), 0);
    assert_memory_equal(key, again, sizeof key);
    unlink(beside);
}

TEST_WITH(second_line, setup, teardown)
{
    static const char digits[] = "00112233445566778899aabbccddeeffAABBCCDDEEFF00112233445566778899";
    static const char *const bad[] = { "%s\n%.63s", "%s\n%.64s0", "%s\n%.64s\nmade\n", "%s%.64s" };
    uint8_t pair[SPOTNIK_KEY_PAIR_BYTES];
    char text[256], zeros[65];
    bool has_old;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, bad[i], digits, digits);
        put(text, 0600);
        assert_int_equal(spotnik_key_read_pair(path, pair, &has_old), SPOTNIK_ERR_ARGUMENT);
    }
    memset(zeros, '0', 64);
    zeros[64] = '\0';
    snprintf(text, sizeof text, "%s\n%s\n", digits, zeros);
    put(text, 0600);
    assert_int_equal(spotnik_key_read_pair(path, pair, &has_old), SPOTNIK_ERR_ARGUMENT);
    snprintf(text, sizeof text, "%s\n%s\n", digits, digits);
    put(text, 0600);
    assert_int_equal(spotnik_key_read_pair(path, pair, &has_old), 0);
    assert_true(has_old);
}

/* An observer key can be made by a holder of the job key, again and again the same. No member, and
 * no signer, takes it for a job key. */
TEST_WITH(of_an_observer, setup, teardown)
{
    char watch[112];
    uint8_t key[SPOTNIK_KEY_BYTES], seen[SPOTNIK_KEY_BYTES], again[SPOTNIK_KEY_BYTES];
    struct spotnik_signer signer[2];
    bool observes = true;

    snprintf(watch, sizeof watch, "%s.watch", path);
    assert_int_equal(spotnik_key_create(path), 0);
    assert_int_equal(spotnik_key_read_to_ask(path, key, &observes), 0);
    assert_false(observes);
    assert_int_equal(spotnik_key_create_observer(watch, path), 0);
    assert_int_equal(spotnik_key_create_observer(watch, path), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_key_read_to_ask(watch, seen, &observes), 0);
    assert_true(observes);
    assert_memory_not_equal(key, seen, sizeof key);
    unlink(watch);
    assert_int_equal(spotnik_key_create_observer(watch, path), 0);
    assert_int_equal(spotnik_key_read_to_ask(watch, again, &observes), 0);
    assert_memory_equal(seen, again, sizeof seen);
    assert_int_equal(spotnik_key_read(watch, key), SPOTNIK_ERR_ARGUMENT);
    assert_non_null(strstr(spotnik_last_error(), "is an observer key"));
    assert_int_equal(spotnik_key_signer(watch, signer), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_key_create_observer(path, watch), SPOTNIK_ERR_ARGUMENT);
    unlink(watch);
}

/* Needs root, to give a file away. */
TEST_WITH(of_another_user, setup, teardown)
{
    uint8_t key[SPOTNIK_KEY_BYTES];

    if (geteuid() != 0)
        skip();
    assert_int_equal(spotnik_key_create(path), 0);
    assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
    assert_int_equal(spotnik_key_read(path, key), SPOTNIK_ERR_ARGUMENT);
    assert_non_null(strstr(spotnik_last_error(), "belongs to user 12345"));
}

/* What is no file is refused at once: a FIFO has no writer, /dev/zero no end. */
TEST_WITH(no_file, setup, teardown)
{
    uint8_t key[SPOTNIK_KEY_BYTES];

    alarm(60); /* a test that hangs ends */
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(spotnik_key_read(path, key), SPOTNIK_ERR_ARGUMENT);
    assert_non_null(strstr(spotnik_last_error(), "no regular file"));
    assert_int_equal(spotnik_key_read("/dev/zero", key), SPOTNIK_ERR_ARGUMENT);
    alarm(0);
}
