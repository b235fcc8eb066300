/* SPDX-License-Identifier: Apache-2.0 */
/* One line for the person whose program, or whose peer, did something wrong. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <gpuwire/detail/held.h>

#include "softnic/object/nic.h"

static void report_say(struct sn_nic *nic, void (*to)(void *user, const char *line), const char *format,
                       va_list args)
{
    char line[SN_REPORT_LINE];

    vsnprintf(line, sizeof(line), format, args);
    to(nic->cfg.report_user ? nic->cfg.report_user : nic->cfg.user, line);
}

bool sn_report_due(const struct sn_nic *nic, unsigned *reports)
{
    if (!nic->cfg.report || (*reports >= SN_REPORTS && !nic->cfg.report_all)) return false;
    ++*reports;
    return true;
}

void sn_report(struct sn_nic *nic, const char *format, ...)
{
    va_list args;

    if (!nic->cfg.report) return;
    va_start(args, format);
    report_say(nic, nic->cfg.report, format, args);
    va_end(args);
}

void sn_warn(struct sn_nic *nic, const char *format, ...)
{
    va_list args;

    if (!nic->cfg.warn) return;
    va_start(args, format);
    report_say(nic, nic->cfg.warn, format, args);
    va_end(args);
}

/* The last one is kept, said or not: `gpuwire nic` shows it. */
void sn_report_qp(struct sn_qp *qp, const char *format, ...)
{
    GW_ASSERT_HELD(&qp->nic->lock);
    va_list args;

    if (!qp->line) qp->line = malloc(SN_REPORT_LINE);
    if (!qp->line) return;
    va_start(args, format);
    vsnprintf(qp->line, SN_REPORT_LINE, format, args);
    va_end(args);
    if (sn_report_due(qp->nic, &qp->reports)) sn_report(qp->nic, "QP 0x%06x: %s", qp->number, qp->line);
}
