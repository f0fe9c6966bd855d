/* SPDX-License-Identifier: Apache-2.0 */
/* SIGTERM as a notice, in the processes of a group that hold no member; api/signal.c does it in the
 * leader. */
#ifndef SPOTNIK_GROUP_NOTICE_SIGNAL_H
#define SPOTNIK_GROUP_NOTICE_SIGNAL_H

#include "group/control.h"

/* Where `spotnik run` started this process, and SIGTERM has its default action: from now on; no
 * longer. One group of a process at a time. */
void spotnik_notice_signal_open(struct spotnik_group_control *control);
void spotnik_notice_signal_close(struct spotnik_group_control *control);

#endif
