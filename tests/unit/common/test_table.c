/* SPDX-License-Identifier: Apache-2.0 */
/* The CSV reader and the text parsers: what they take, what they refuse, and where they say it
 * is. */
#include "common/table.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "tests.h"

static int parse(const char *text, struct spotnik_table **table, struct spotnik_fault *fault)
{
    return spotnik_table_parse("t.csv", text, strlen(text), table, fault);
}

TEST(fields_and_lines)
{
    struct spotnik_table *table;
    double value;

    assert_int_equal(parse("\xef\xbb\xbfName,price\r\n\"a,\"\"b\"\"\nc\",1.5\r\n\nplain,2\n",
                           &table, NULL),
                     0);
    assert_int_equal(spotnik_table_rows(table), 2);
    assert_int_equal(spotnik_table_find(table, "NAME"), 0);
    assert_string_equal(spotnik_table_text(table, 0, 0), "a,\"b\"\nc");
    assert_int_equal(spotnik_table_line(table, 1), 5);
    assert_int_equal(spotnik_table_number(table, 1, 1, 0, 10, &value, NULL), 0);
    assert_true(value == 2);
    spotnik_table_free(table);
}

static void refused(const char *text, const char *part)
{
    struct spotnik_table *table;
    struct spotnik_fault fault;

    assert_int_equal(parse(text, &table, &fault), -1);
    assert_non_null(strstr(fault.text, part));
}

TEST(bad_files)
{
    refused("", "empty file");
    refused("a,b\n", "no rows");
    refused("a,b\n1,2\n1,5,2\n", "t.csv:3: 3 fields where the header has 2 (a decimal comma?");
    refused("a,b\n1\n", "t.csv:2: 1 fields");
    refused("a,b\n\"x,2\n", "t.csv:2: field 1: a quote");
    refused("a,b\n\"x\"y,2\n", "t.csv:2: field 1: a quote");
}

TEST(bad_numbers)
{
    static const char *const bad[] = { "",     "1,5", "x",     "nan",    "inf",
                                       "0x10", "-1",  "1e999", "1.5 USD" };
    struct spotnik_fault fault;
    double value;
    char text[64];

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct spotnik_table *table;
        snprintf(text, sizeof(text), "a,price\n1,\"%s\"\n", bad[i]);
        assert_int_equal(parse(text, &table, NULL), 0);
        assert_int_equal(spotnik_table_number(table, 0, 1, 0, 1e6, &value, &fault), -1);
        assert_non_null(strstr(fault.text, "t.csv:2: column 2 (price)"));
        spotnik_table_free(table);
    }
}

TEST(numbers_ignore_the_locale)
{
    double value;

    setlocale(LC_ALL, "de_DE.UTF-8");
    assert_true(spotnik_number_parse(" 1.25e1 ", &value));
    assert_true(value == 12.5);
    assert_false(spotnik_number_parse("1,25", &value));
    setlocale(LC_ALL, "C");
}

TEST(durations)
{
    double s;

    assert_true(spotnik_duration_parse("1.5h", &s) && s == 5400);
    assert_true(spotnik_duration_parse("12m", &s) && s == 720);
    assert_true(spotnik_duration_parse("2d", &s) && s == 172800);
    assert_false(spotnik_duration_parse("12", &s));
    assert_false(spotnik_duration_parse("1,5h", &s));
    assert_false(spotnik_duration_parse("h", &s));
    assert_false(spotnik_duration_parse("-1h", &s));
}

TEST(times_need_a_zone)
{
    double s;

    assert_true(spotnik_timestamp_parse("1970-01-01T00:00:00Z", &s) && s == 0);
    assert_true(spotnik_timestamp_parse("2015-03-11T16:53:20Z", &s) && s == 1426092800);
    assert_true(spotnik_timestamp_parse("2015-03-11T08:53:20.5-08:00", &s) && s == 1426092800.5);
    assert_false(spotnik_timestamp_parse("2015-03-11T16:53:20", &s));
    assert_false(spotnik_timestamp_parse("2015-13-11T16:53:20Z", &s));
}
