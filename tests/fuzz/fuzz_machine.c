/* room: fit */
/* Any text as the description of a machine: what opens has devices with names and figures, and what does not leaves a message
 * that says in which line. */
#include "plait/cost.h"
#include "plait/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void broken(const char *what) {
    fprintf(stderr, "%s: %s\n", what, plait_error_message());
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    plait_context *context = NULL;
    plait_status status = plait_machine_open(&context, (const char *)data, size, NULL);
    if (status != PLAIT_OK) {
        if (context || status != PLAIT_INVALID_ARGUMENT) broken("a failure of another kind");
        const char *said = plait_error_message();
        if (!strstr(said, "line ") && !strstr(said, "describe")) broken("a failure without its place");
        for (; *said; said++)
            if ((unsigned char)*said < ' ') broken("a control character");
        return 0;
    }
    int n = plait_context_device_count(context);
    if (n < 1) broken("a machine without devices");
    for (int d = 0; d < n; d++) {
        plait_device_figures figures;
        if (!plait_context_device(context, d)->name[0]) broken("a device without a name");
        if (plait_context_figures(context, d, &figures) != PLAIT_OK || figures.float_flop_per_s == 0 ||
            figures.bytes_per_s == 0 || figures.write_bytes_per_s == 0)
            broken("figures");
    }
    plait_context_close(context);
    return 0;
}
