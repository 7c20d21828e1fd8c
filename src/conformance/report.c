/* Results as JSON, one object a check. Not here: any judgement, and who counts (run.c). Invariant: numbers that were
 * not measured are 0, never missing. */
#include "conformance/report.h"

#include "base/os.h"

/* In the order of plait_conformance_outcome. */
static const char *const outcome_names[] = {"passed", "failed", "lacking"};

/* wanted: nothing is kept otherwise. */
void plait_conf_report_init(plait_conf_report *report, const char *item, bool wanted) {
    *report = (plait_conf_report){.item = item, .wanted = wanted};
    plait_strbuf_init(&report->results, 0);
}

void plait_conf_report_deinit(plait_conf_report *report) {
    plait_strbuf_deinit(&report->results);
}

/* In front of it stands a comma: numbers never come first. */
static void add_number(plait_strbuf *s, const char *key, double value) {
    plait_strbuf_printf(s, ",\"%s\":", key);
    plait_strbuf_json_number(s, value);
}

static void add_text(plait_strbuf *s, const char *key, const char *value) {
    plait_strbuf_printf(s, "\"%s\":", key);
    plait_strbuf_json_string(s, value);
}

/* Texts are kept as they are; what runs out of memory shows when the report is written. The hash is text, for 64 bits
 * are more than a JSON number keeps in most readers. */
void plait_conf_report_add(plait_conf_report *report, const plait_conformance_result *r) {
    plait_strbuf *s = &report->results;
    if (!report->wanted) return;
    plait_strbuf_append(s, report->n++ ? ",\n{" : "{");
    add_text(s, "name", r->name);
    plait_strbuf_printf(s, ",\"outcome\":\"%s\",", outcome_names[r->outcome]);
    add_text(s, "message", r->message);
    add_number(s, "error", r->error);
    plait_strbuf_printf(s, ",\"hash\":\"%016llx\"", (unsigned long long)r->hash);
    add_number(s, "launch_ns", r->launch_ns);
    add_number(s, "bytes", r->bytes);
    add_number(s, "flop", r->flop);
    add_number(s, "share_of_limit", r->share_of_limit);
    plait_strbuf_append(s, "}");
}

/* What the results are of, and the counts, before the results themselves. */
static void add_device(const plait_conf_report *report, const plait_conformance_summary *summary,
                       plait_strbuf *s) {
    add_text(s, "device", report->item);
    plait_strbuf_append(s, ",");
    add_text(s, "kind", summary->info.kind);
    plait_strbuf_append(s, ",");
    add_text(s, "description", summary->info.description);
    plait_strbuf_append(s, ",");
    add_text(s, "numeric_class", summary->info.numeric_class);
    plait_strbuf_printf(s, ",\n\"passed\":%d,\"failed\":%d,\"lacking\":%d", summary->passed, summary->failed,
                        summary->lacking);
    add_number(s, "bytes_per_s", summary->bytes_per_s);
    add_number(s, "flop_per_s", summary->flop_per_s);
}

/* Through a file beside the target, which takes its name when it is whole: a report that is there is complete. */
static plait_status write_text(const plait_strbuf *text, const char *path) {
    plait_file_writer writer;
    PLAIT_TRY(plait_strbuf_status(text));
    PLAIT_TRY(plait_file_writer_open(&writer, path));
    plait_status status = plait_file_writer_write(&writer, plait_strbuf_text(text), text->length);
    if (status == PLAIT_OK) return plait_file_writer_commit(&writer);
    plait_file_writer_abandon(&writer);
    return status;
}

/* One object, results as an array with one a line, so that two reports can be compared by lines. */
plait_status plait_conf_report_write(plait_conf_report *report, const plait_conformance_summary *summary,
                                     const char *path) {
    plait_strbuf text;
    plait_strbuf_init(&text, 0);
    plait_strbuf_append(&text, "{");
    add_device(report, summary, &text);
    plait_strbuf_append(&text, ",\n\"results\":[\n");
    plait_strbuf_append(&text, plait_strbuf_text(&report->results));
    plait_strbuf_append(&text, "\n]}\n");
    plait_strbuf_inherit(&text, &report->results);
    plait_status status = write_text(&text, path);
    plait_strbuf_deinit(&text);
    return status;
}
