/* SPDX-License-Identifier: Apache-2.0 */
/* Why members that compute the same decision get the same bits. Included by every file that decides
 * with floating point; no other pure folder than batch and sync may.
 *
 * The inputs came out of a committed all-reduce, so they are the same bits everywhere (P3, P4). On
 * them only + - * / and comparisons are used, which IEEE 754 rounds in one way, in the order that
 * is written. The build forbids contraction (-ffp-contract=off) and reordering. The assertion below
 * forbids excess precision. No function of libm takes part: those differ between versions. */
#ifndef SPOTNIK_ADAPT_SAME_BITS_H
#define SPOTNIK_ADAPT_SAME_BITS_H

_Static_assert(__FLT_EVAL_METHOD__ == 0,
               "agreed decisions need doubles without excess precision (-mfpmath=sse)");
#ifdef __FAST_MATH__
#error "agreed decisions need IEEE arithmetic: build without -ffast-math"
#endif

#endif
