/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's commands by themselves, for building and testing the planner without the runtime. */
#include "plan_args.h"
#include "cmd_backtest.h"
#include "cmd_model.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "model"))
        return spotnik_cmd_model(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "backtest"))
        return spotnik_cmd_backtest(argc - 1, argv + 1);
    fputs("usage: spotnik model|backtest|plan ...\n", stderr);
    return SPOTNIK_EXIT_USAGE;
}
