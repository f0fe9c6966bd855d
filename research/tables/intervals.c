/* SPDX-License-Identifier: Apache-2.0 */
#include "intervals.h"

#include <math.h>

double spotnik_interval_young_s(double write_s, double mttf_s)
{
    return sqrt(2 * write_s * mttf_s);
}

double spotnik_interval_daly_s(double write_s, double mttf_s)
{
    double ratio = write_s / (2 * mttf_s);

    if (write_s >= 2 * mttf_s)
        return mttf_s;
    return sqrt(2 * write_s * mttf_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - write_s;
}

double spotnik_interval_available_s(double write_s, double mttf_s, double recover_s)
{
    return write_s + sqrt(2 * (mttf_s + recover_s) * write_s + write_s * write_s);
}
