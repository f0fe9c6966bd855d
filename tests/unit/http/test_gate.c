/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: beyond loopback there is no server without a token; on loopback, names that are not
 * loopback's are turned away, so that a web page cannot read through a name of its own; a token is
 * compared whole. */
#include "http/gate.h"
#include "http/server.h"
#include "spotnik/spotnik.h"
#include "tests.h"

TEST(where)
{
    struct spotnik_gate door;

    assert_int_equal(spotnik_gate_open("8080", NULL, &door), 0);
    assert_true(door.loopback && door.port == 8080);
    assert_int_equal(spotnik_gate_open("127.0.0.1", NULL, &door), 0);
    assert_int_equal(door.port, SPOTNIK_HTTP_PORT);
    assert_int_equal(spotnik_gate_open("127.0.0.1:0", NULL, &door), 0);
    assert_int_equal(door.port, 0);
    assert_int_equal(spotnik_gate_open("[::1]:99", NULL, &door), 0);
    assert_true(door.loopback && door.port == 99);
    assert_int_equal(spotnik_gate_open("70000", NULL, &door), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_gate_open("127.0.0.1:what", NULL, &door), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_gate_open("0.0.0.0:9640", NULL, &door), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_gate_open("0.0.0.0:9640", "", &door), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_gate_open("0.0.0.0:9640", "short", &door), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_gate_open("0.0.0.0:9640", "0123456789abcdef", &door), 0);
    assert_false(door.loopback);
}

TEST(names)
{
    struct spotnik_gate door;

    assert_int_equal(spotnik_gate_open("9640", NULL, &door), 0);
    assert_true(spotnik_gate_admits(&door, NULL, NULL)); /* HTTP/1.0: no browser */
    assert_true(spotnik_gate_admits(&door, "localhost:9640", NULL));
    assert_true(spotnik_gate_admits(&door, "LOCALHOST", NULL));
    assert_true(spotnik_gate_admits(&door, "127.0.0.1:9640", NULL));
    assert_true(spotnik_gate_admits(&door, "[::1]:9640", NULL));
    assert_false(spotnik_gate_admits(&door, "example.com:9640", NULL));
    assert_false(spotnik_gate_admits(&door, "localhost.example.com", NULL));
    assert_false(spotnik_gate_admits(&door, "127.0.0.1.example.com", NULL));
    assert_false(spotnik_gate_admits(&door, "127.evil", NULL));
    assert_false(spotnik_gate_admits(&door, "[::1", NULL));
    assert_false(spotnik_gate_admits(&door, "", NULL));
}

TEST(token)
{
    struct spotnik_gate door;

    assert_int_equal(spotnik_gate_open("127.0.0.1", "0123456789abcdef", &door), 0);
    assert_true(spotnik_gate_admits(&door, "any.name", "Bearer 0123456789abcdef"));
    assert_true(spotnik_gate_admits(&door, NULL, "bearer 0123456789abcdef"));
    assert_false(
        /* a token that is set counts on loopback, too */
        spotnik_gate_admits(&door, "localhost", NULL));
    assert_false(spotnik_gate_admits(&door, NULL, "Bearer 0123456789abcdee"));
    assert_false(spotnik_gate_admits(&door, NULL, "Bearer 0123456789abcde"));
    assert_false(spotnik_gate_admits(&door, NULL, "Bearer 0123456789abcdef0"));
    assert_false(spotnik_gate_admits(&door, NULL, "Basic 0123456789abcdef"));
    assert_false(spotnik_gate_admits(&door, NULL, ""));
}
