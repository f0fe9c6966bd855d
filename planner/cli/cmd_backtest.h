/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPOTNIK_CLI_CMD_BACKTEST_H
#define SPOTNIK_CLI_CMD_BACKTEST_H

int spotnik_cmd_backtest(int argc, char **argv);

#endif
