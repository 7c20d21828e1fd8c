/* The suite's results as JSON. Not here: any judgement. */
#ifndef PLAIT_CONFORMANCE_REPORT_H
#define PLAIT_CONFORMANCE_REPORT_H

#include "base/strbuf.h"
#include "plait/conformance.h"

/* Results pile up as text; nothing is written before the end. */
typedef struct plait_conf_report {
    const char *item; /* Borrowed. */
    bool wanted;      /* a path was given */
    int n;            /* results so far */
    plait_strbuf results;
} plait_conf_report;

void plait_conf_report_init(plait_conf_report *report, const char *item, bool wanted);
void plait_conf_report_deinit(plait_conf_report *report);
/* Failures stick to the text and show when it is written. */
void plait_conf_report_add(plait_conf_report *report, const plait_conformance_result *result);
/* The file at `path` is replaced as a whole. */
plait_status plait_conf_report_write(plait_conf_report *report, const plait_conformance_summary *summary,
                                     const char *path);

#endif
