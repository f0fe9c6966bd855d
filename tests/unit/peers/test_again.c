/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: a process that the job went on without, and that holds its state, begins the next
 * generation when nobody else can be alive, and only then; never one of a lineage that was
 * replaced. Of several the one with the newest state goes first, and before any newcomer. */
#include "meeting.h"

struct outsider {
    struct seeker seeker;
    uint64_t step, patience_ns;
    pthread_t thread;
};

/* It founded, or joins what is there by its record; then the others went on without it. */
static void outsider_open(struct outsider *outsider, uint64_t number,
                          const struct spotnik_founding *of)
{
    struct seeker *seeker = &outsider->seeker;
    seeker_open(seeker, number, 0);
    assert_int_equal(spotnik_peers_new(spec, seeker->engine, &seeker->peers), 0);
    spotnik_engine_found(seeker->engine, NULL, of);
    spotnik_genesis_adopt(seeker->peers, of->generation, of->id);
    spotnik_engine_forget(seeker->engine);
    assert_int_equal(spotnik_peers_renew(seeker->peers), 0);
}

static void *look_again(void *context)
{
    struct outsider *outsider = context;
    struct seeker *seeker = &outsider->seeker;
    seeker->rc = spotnik_peers_find_again(seeker->peers, outsider->step, outsider->patience_ns,
                                          NULL, NULL, &seeker->found, &seeker->sponsor);
    if (seeker->rc == 0 && seeker->found) {
        struct spotnik_founding founding = spotnik_peers_lineage(seeker->peers);
        spotnik_engine_found(seeker->engine, NULL, &founding);
    }
    return NULL;
}

static void outsider_start(struct outsider *outsider)
{
    assert_int_equal(pthread_create(&outsider->thread, NULL, look_again, outsider), 0);
}

static void outsider_wait(struct outsider *outsider)
{
    pthread_join(outsider->thread, NULL);
}

/* The first life of the job, by a process of another machine. */
static struct spotnik_founding life_make(struct spotnik_record *founder)
{
    struct spotnik_founding founding;
    spotnik_peers_founding_make(NULL, 1, &founding);
    *founder = stranger_make(50);
    founder->founding = founding.id;
    founder->root = founding.root;
    founder->born_ms = founding.born_ms;
    founder->generation = 1;
    founder->epoch = 3;
    founder->size = 1;
    genesis_put(founder);
    return founding;
}

static void genesis_read(const char *name, struct spotnik_record *ret)
{
    struct spotnik_engine_config config;
    uint64_t print;
    cluster_config(&config, 1);
    assert_int_equal(spotnik_record_read(&config.credentials, directory, name, ret, &print, NULL),
                     SPOTNIK_READING_RECORD);
}

/* Alive and out of our reach the others keep it waiting; silent for T they do not. */
static void it_goes_on_when_nobody_else_can_be_alive(void **state)
{
    (void)state;
    struct writer writer = { .torn = false };
    struct outsider outsider = { .step = 7, .patience_ns = 3 * STALE_NS };
    struct spotnik_record genesis;
    struct spotnik_founding founding = life_make(&writer.record);
    writer_start(&writer);
    outsider_open(&outsider, 1, &founding);
    outsider_start(&outsider);
    outsider_wait(&outsider);
    assert_int_equal(outsider.seeker.rc, SPOTNIK_ERR_PEERS);
    assert_false(is_there("genesis-2"));
    writer_end(&writer);
    outsider.patience_ns = 1; /* a wait for T is no failure */
    outsider_start(&outsider);
    outsider_wait(&outsider);
    assert_int_equal(outsider.seeker.rc, 0);
    assert_true(outsider.seeker.found);
    genesis_read("genesis-2", &genesis);
    assert_int_equal(genesis.step, 7);
    assert_int_equal(genesis.root, founding.root);
    seeker_close(&outsider.seeker);
}

/* Its own genesis of then is no founding of now; and where all files are gone it takes no number
 * that its lineage had. */
static void it_never_takes_the_number_of_a_life_that_was(void **state)
{
    (void)state;
    struct outsider outsider = { .step = 7, .patience_ns = 1 };
    char command[128];
    seek(&outsider.seeker, 1, 10 * SECOND);
    assert_true(outsider.seeker.rc == 0 && outsider.seeker.found);
    struct spotnik_founding founding = spotnik_peers_lineage(outsider.seeker.peers);
    spotnik_engine_found(outsider.seeker.engine, NULL, &founding);
    spotnik_engine_forget(outsider.seeker.engine);
    uint64_t begun_ns = spotnik_peers_clock_ns();
    outsider_start(&outsider);
    outsider_wait(&outsider);
    assert_true(outsider.seeker.rc == 0 && outsider.seeker.found);
    /* a cleaner may have taken the records of those that went on without it */
    assert_true(spotnik_peers_clock_ns() - begun_ns >= STALE_NS);
    assert_true(is_there("genesis-2"));
    spotnik_engine_forget(outsider.seeker.engine);
    snprintf(command, sizeof command, "rm -f -- %s/*", directory);
    assert_int_equal(system(command), 0);
    outsider_start(&outsider);
    outsider_wait(&outsider);
    assert_true(outsider.seeker.rc == 0 && outsider.seeker.found);
    assert_true(is_there("genesis-3") && !is_there("genesis-1"));
    seeker_close(&outsider.seeker);
}

static void a_lineage_that_was_replaced_founds_nothing(void **state)
{
    (void)state;
    struct outsider outsider = { .step = 7, .patience_ns = 3 * STALE_NS };
    struct spotnik_record founder;
    struct spotnik_founding founding = life_make(&founder);
    outsider_open(&outsider, 1, &founding);
    founder.generation = 2;
    founder.founding = founding.id + 2;
    struct spotnik_engine_config config;
    cluster_config(&config, 1);
    assert_int_equal(spotnik_record_write(&config.credentials, &founder, directory, "genesis-2",
                                          true),
                     0);
    outsider_start(&outsider);
    outsider_wait(&outsider);
    assert_int_equal(outsider.seeker.rc, SPOTNIK_ERR_PEERS);
    assert_false(is_there("genesis-3"));
    seeker_close(&outsider.seeker);
}

/* All three may found after T. */
static void the_newest_state_goes_first(void **state)
{
    (void)state;
    struct outsider behind = { .step = 7, .patience_ns = 60 * SECOND },
                    ahead = { .step = 9, .patience_ns = 60 * SECOND };
    struct spotnik_record founder, genesis;
    struct spotnik_founding founding = life_make(&founder);
    struct seeker newcomer;
    record_put(&founder);
    outsider_open(&behind, 1, &founding); /* the smaller id */
    outsider_open(&ahead, 2, &founding);
    outsider_start(&behind);
    outsider_start(&ahead);
    seek(&newcomer, 3, 60 * SECOND);
    outsider_wait(&ahead);
    outsider_wait(&behind);
    assert_true(ahead.seeker.rc == 0 && ahead.seeker.found);
    assert_true(behind.seeker.rc == 0 && !behind.seeker.found);
    assert_true(newcomer.rc == 0 && !newcomer.found);
    genesis_read("genesis-2", &genesis);
    assert_int_equal(genesis.step, 9);
    seeker_close(&newcomer);
    seeker_close(&behind.seeker);
    seeker_close(&ahead.seeker);
}

/* A copy of a genesis under the last number that is one: whatever was founded behind it, nobody
 * would see. */
static void a_number_that_nobody_would_read_founds_nothing(void **state)
{
    (void)state;
    struct spotnik_record founder;
    struct spotnik_engine_config config;
    struct seeker newcomer;
    life_make(&founder);
    cluster_config(&config, 1);
    assert_int_equal(spotnik_record_write(&config.credentials, &founder, directory,
                                          "genesis-999999999999999999", true),
                     0);
    seek(&newcomer, 1, 60 * SECOND);
    assert_int_equal(newcomer.rc, SPOTNIK_ERR_SYSTEM);
    assert_non_null(strstr(spotnik_last_error(), "remove it"));
    assert_false(is_there("genesis-1000000000000000000"));
    seeker_close(&newcomer);
}

/* With a list nobody knows whether others live. */
static void with_a_list_it_founds_nothing(void **state)
{
    (void)state;
    struct outsider outsider = { .step = 7, .patience_ns = SECOND };
    struct spotnik_founding founding;
    struct seeker *seeker = &outsider.seeker;
    char list[64];
    spotnik_peers_founding_make(NULL, 1, &founding);
    seeker_open(seeker, 1, 0);
    snprintf(list, sizeof list, "127.0.0.1:%u",
             (unsigned)spotnik_engine_credentials(seeker->engine)->self.port);
    assert_int_equal(spotnik_peers_new(list, seeker->engine, &seeker->peers), 0);
    spotnik_engine_found(seeker->engine, NULL, &founding);
    spotnik_engine_forget(seeker->engine);
    outsider_start(&outsider);
    outsider_wait(&outsider);
    assert_int_equal(seeker->rc, SPOTNIK_ERR_PEERS);
    seeker_close(seeker);
}

int main(void)
{
    setenv("SPOTNIK_STALE_MS", "2000", 1);
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_goes_on_when_nobody_else_can_be_alive, directory_make,
                                        directory_clear),
        cmocka_unit_test_setup_teardown(it_never_takes_the_number_of_a_life_that_was,
                                        directory_make, directory_clear),
        cmocka_unit_test_setup_teardown(a_lineage_that_was_replaced_founds_nothing, directory_make,
                                        directory_clear),
        cmocka_unit_test_setup_teardown(the_newest_state_goes_first, directory_make,
                                        directory_clear),
        cmocka_unit_test_setup_teardown(a_number_that_nobody_would_read_founds_nothing,
                                        directory_make, directory_clear),
        cmocka_unit_test_setup_teardown(with_a_list_it_founds_nothing, directory_make,
                                        directory_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
