/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPOTNIK_CLI_CMD_PLAN_H
#define SPOTNIK_CLI_CMD_PLAN_H

int spotnik_cmd_plan(int argc, char **argv);
int spotnik_cmd_prices(int argc, char **argv);
int spotnik_cmd_profile(int argc, char **argv);

#endif
