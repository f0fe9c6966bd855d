/* SPDX-License-Identifier: Apache-2.0 */
/* One member's word of the witness. */
#include "membership/agreement.h"
#include "tests.h"

/* Claim: the first tie of an epoch waits for the answer, a later one does not. */
TEST(the_first_tie_waits)
{
    struct tie_break tie = { 0 };
    assert_true(tie_break_ask(&tie, 3));
    assert_false(tie_break_ask(&tie, 3));
    assert_true(tie_break_ask(&tie, 4));
}

/* Claim: the word of one epoch counts in no other, nor where there is no view. */
TEST(a_word_is_of_its_epoch)
{
    struct tie_break tie = { 0 };
    assert_false(tie_break_is_ours(&tie, 0));
    tie_break_name(&tie, 3);
    assert_true(tie_break_is_ours(&tie, 3));
    assert_false(tie_break_is_ours(&tie, 4));
}

/* Claim: a member asks again if it has asked in this epoch and was not named. */
TEST(it_asks_again)
{
    struct tie_break tie = { 0 };
    assert_false(tie_break_is_open(&tie, 3));
    tie_break_ask(&tie, 3);
    assert_true(tie_break_is_open(&tie, 3));
    assert_false(tie_break_is_open(&tie, 4));
    tie_break_name(&tie, 3);
    assert_false(tie_break_is_open(&tie, 3));
}
