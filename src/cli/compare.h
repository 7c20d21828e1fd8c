/* What `plait plan --compare` prints. */
#ifndef PLAIT_CLI_COMPARE_H
#define PLAIT_CLI_COMPARE_H

#include "cli/cli.h"
#include "model/compare.h"

/* Appends the comparison of plans of one context with the trace in a file. */
plait_status plait_cli_compare(const plait_plan *const *plans, int n_plans, const char *path, bool json,
                               plait_strbuf *out);

#endif
