/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's commands by themselves, for building and testing the planner without the
 * runtime. */
#include "plan_args.h"
#include "cmd_backtest.h"
#include "cmd_model.h"
#include "cmd_plan.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "model"))
        return spotnik_cmd_model(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "backtest"))
        return spotnik_cmd_backtest(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "plan"))
        return spotnik_cmd_plan(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "profile"))
        return spotnik_cmd_profile(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "prices"))
        return spotnik_cmd_prices(argc - 1, argv + 1);
    fputs("usage: spotnik model|backtest|plan|prices|profile ...\n", stderr);
    return SPOTNIK_EXIT_USAGE;
}
