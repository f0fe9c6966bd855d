/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik bench allreduce, behind spotnik bench. */
#ifndef SPOTNIK_CLI_BENCH_ALLREDUCE_H
#define SPOTNIK_CLI_BENCH_ALLREDUCE_H

int spotnik_bench_allreduce(int argc, char **argv);

#endif
