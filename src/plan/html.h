/* Parts of the page of plans: html.c puts them together. */
#ifndef PLAIT_PLAN_HTML_H
#define PLAIT_PLAN_HTML_H

#include "plan/explain.h"

/* Of all pictures, in units that the page scales to its own width. */
enum { PLAIT_HTML_WIDTH = 960 };

/* Text with what HTML would take for its own replaced, control characters by '?'. */
void plait_html_text(plait_strbuf *s, const char *text);
/* At most `most` characters of it, the last one "..." in one when there are more. */
void plait_html_short(plait_strbuf *s, const char *text, size_t most);

/* Lanes of queues over predicted time (html_lanes.c). */
void plait_html_lanes(const plait_explained *e, const plait_forecast *forecast, plait_strbuf *s);
void plait_html_lanes_key(plait_strbuf *s);
/* Memory of temporaries of a device (html_memory.c); nothing when it has none. */
plait_status plait_html_memory(const plait_explained *e, const plait_forecast *forecast, int device,
                               plait_strbuf *s);
void plait_html_memory_key(plait_strbuf *s);

#endif
