/* SPDX-License-Identifier: Apache-2.0 */
/* The line between watcher and agent. Claims: it comes back as it went, on one line; a line that is
 * no notice is refused. */
#include <string.h>

#include "common/notice.h"
#include "tests.h"

#define NOW INT64_C(1587748180000)

TEST(line)
{
    struct notice notice = { .kind = NOTICE_RISK,
                             .deadline_ms = NOW,
                             .source = "aws",
                             .text = "a \"word\"\n\x01" },
                  back;
    char text[1024];

    assert_true(notice_format(&notice, text, sizeof(text)) > 0);
    assert_null(strchr(text, '\n'));
    assert_true(notice_parse(text, &back));
    assert_int_equal(back.kind, notice.kind);
    assert_int_equal(back.deadline_ms, notice.deadline_ms);
    assert_string_equal(back.text, notice.text);
    assert_int_equal(notice_format(&notice, text, 20), 0);
    assert_false(notice_parse("{}", &back));
    assert_false(notice_parse("{\"kind\":\"nonsense\"}", &back));
}
