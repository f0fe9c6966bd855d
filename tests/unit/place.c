/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and removes the folder; what else is in the configuration is the test's. */
#include "place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "api/key.h"
#include "discovery/discovery.h"

void place_open(struct place *place)
{
    strcpy(place->folder, "/tmp/spotnik-test-XXXXXX");
    assert_non_null(mkdtemp(place->folder));
    snprintf(place->key, sizeof place->key, "%s/key", place->folder);
    snprintf(place->peers, sizeof place->peers, "file:%s", place->folder);
    assert_int_equal(spotnik_key_create(place->key), 0);
    assert_int_equal(spotnik_discovery_fresh(place->folder), 0);
}

void place_close(struct place *place)
{
    char command[96];

    snprintf(command, sizeof command, "rm -rf -- %s", place->folder);
    assert_int_equal(system(command), 0);
}

void place_config(const struct place *place, spotnik_config *config)
{
    spotnik_config_init(config);
    config->key_file = place->key;
    config->peers = place->peers;
    config->silence_floor_ns = UINT64_C(10000000000);
}
