/* SPDX-License-Identifier: Apache-2.0 */
/* One line for the person whose program, or whose peer, did something wrong. */
#include <stdarg.h>
#include <stdio.h>

#include "softnic/engine/engine.h"

static void say(struct sn_nic *nic, const char *prefix, const char *format, va_list args)
{
    char line[256];
    int n = snprintf(line, sizeof(line), "%s", prefix);

    vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
    nic->cfg.report(nic->cfg.user, line);
}

void sn_report(struct sn_nic *nic, const char *format, ...)
{
    va_list args;

    if (!nic->cfg.report) return;
    va_start(args, format);
    say(nic, "", format, args);
    va_end(args);
}

void sn_report_qp(struct sn_qp *qp, const char *format, ...)
{
    char prefix[32];
    va_list args;

    if (!qp->nic->cfg.report || qp->reports >= SN_REPORTS) return;
    qp->reports++;
    snprintf(prefix, sizeof(prefix), "QP 0x%06x: ", qp->number);
    va_start(args, format);
    say(qp->nic, prefix, format, args);
    va_end(args);
}
