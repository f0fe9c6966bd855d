/* SPDX-License-Identifier: Apache-2.0 */
/* How often to write checkpoints, in closed form: Young, Daly, and the availability-optimal
 * interval (Saxena et al., arXiv 2410.18124). */
#ifndef SPOTNIK_RESEARCH_INTERVALS_H
#define SPOTNIK_RESEARCH_INTERVALS_H

/* Young: sqrt(2 delta M). */
double spotnik_interval_young_s(double write_s, double mttf_s);
/* Daly's higher order form; M when delta >= 2 M. */
double spotnik_interval_daly_s(double write_s, double mttf_s);
/* T_s + sqrt(2 (T_f + T_r) T_s + T_s^2), T_s a checkpoint, T_f mean time to failure, T_r
 * recovery. */
double spotnik_interval_available_s(double write_s, double mttf_s, double recover_s);

#endif
