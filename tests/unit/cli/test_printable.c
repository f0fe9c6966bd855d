/* SPDX-License-Identifier: Apache-2.0 */
/* What a member says cannot steer the terminal that it is shown on. */
#include "printable.h"
#include "tests.h"

TEST(controls_become_question_marks)
{
    json_t *answer = json_loads("{\"job\": \"a\\u001b]0;owned\\u0007b\", \"size\": 2, \"members\":"
                                "[{\"address\": \"\\u009b31m\\u007f\\n\\u00a0\\u00e4\\u4e2d\"}]}",
                                0, NULL);

    assert_non_null(answer);
    json_make_printable(answer);
    json_make_printable(NULL);
    assert_string_equal(json_string_value(json_object_get(answer, "job")), "a?]0;owned?b");
    assert_int_equal(json_integer_value(json_object_get(answer, "size")), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(answer,
                                                                                         "members"),
                                                                         0),
                                                          "address")),
                        "?31m??\xc2\xa0\xc3\xa4\xe4\xb8\xad");
    json_decref(answer);
}
