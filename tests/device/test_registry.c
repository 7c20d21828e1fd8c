/* The registry of device kinds: what is built in, what is refused, items of a device list, stubs of optional slots. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plait/device.h"

static void assert_message(const char *part) {
    if (!strstr(plait_error_message(), part))
        fail_msg("message \"%s\" does not say \"%s\"", plait_error_message(), part);
}

static void built_in_kinds(void **state) {
    (void)state;
    assert_true(plait_device_kind_count() >= 2);
    assert_non_null(plait_device_kind("cpu"));
    assert_non_null(plait_device_kind("null"));
    assert_null(plait_device_kind("sun"));
    for (int i = 0; i < plait_device_kind_count(); i++) {
        const plait_device_vtable *kind = plait_device_kind_at(i);
        assert_ptr_equal(kind, plait_device_kind(kind->kind));
        assert_non_null(kind->buffer_import);
        assert_non_null(kind->encodings);
        assert_non_null(kind->pack);
        assert_non_null(kind->unpack);
        printf("kind %s: %s\n", kind->kind, kind->doc);
    }
    assert_null(plait_device_kind_at(-1));
    assert_null(plait_device_kind_at(plait_device_kind_count()));
}

static void wrong_items(void **state) {
    (void)state;
    static const struct {
        const char *item, *message;
    } cases[] = {
        {"sun", "known: cpu, null"},
        {"", "unknown"},
        {"cpu:threads", "not key=value"},
        {"cpu:=3", "not key=value"},
        {"cpu:threads=0", "expected 1 to"},
        {"cpu:threads=two", "expected 1 to"},
        {"cpu:speed=9", "known: threads"},
        {"cpu:isa=mmx", "known: portable"},
        {"null:x=1", "unknown"},
        {"cpu:threads=1:", "not key=value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        plait_device *device = NULL;
        assert_int_equal(plait_device_create(cases[i].item, NULL, &device), PLAIT_INVALID_ARGUMENT);
        assert_null(device);
        assert_message(cases[i].message);
    }
}

static void devices_say_what_they_are(void **state) {
    (void)state;
    static const char *const items[] = {"cpu", "cpu:threads=1", "cpu:threads=3:isa=portable", "null"};
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        plait_device *device = NULL;
        plait_device_info info;
        assert_int_equal(plait_device_create(items[i], NULL, &device), PLAIT_OK);
        assert_int_equal(device->vtable->describe(device, &info), PLAIT_OK);
        printf("%s: %s, %s, %s\n", items[i], info.name, info.description, info.numeric_class);
        assert_true(info.memory_total_bytes > 0 && info.alignment >= 1);
        assert_int_equal(info.alignment & (info.alignment - 1), 0);
        assert_true(strlen(info.numeric_class) > 0);
        assert_int_equal(device->vtable->health(device), PLAIT_OK);
        device->vtable->destroy(device);
    }
}

static void stubs_are_typed(void **state) {
    (void)state;
    plait_device *device = NULL;
    plait_buffer *buffer = NULL;
    char bytes[64];
    int n = 1;
    plait_encoding_offer offer;
    plait_weight_use use = {.dtype = PLAIT_F32};
    assert_int_equal(plait_device_create("null", NULL, &device), PLAIT_OK);
    const plait_device_vtable *v = device->vtable;
    assert_int_equal(v->buffer_import(device, bytes, sizeof bytes, 0, &buffer), PLAIT_UNSUPPORTED);
    assert_null(buffer);
    assert_message("null");
    assert_int_equal(v->encodings(device, &use, &offer, &n), PLAIT_UNSUPPORTED);
    assert_int_equal(v->pack(device, NULL, 1, 0, 0, (plait_region){0}), PLAIT_UNSUPPORTED);
    assert_int_equal(v->unpack(device, NULL, 1, 0, 0, (plait_region){0}, NULL), PLAIT_UNSUPPORTED);
    v->destroy(device);
}

static void refused_kinds(void **state) {
    (void)state;
    static plait_device_vtable kind;
    kind = *plait_device_kind("null");
    kind.kind = "test-a";
    kind.version = PLAIT_DEVICE_VERSION + 1;
    assert_int_equal(plait_device_register(&kind), PLAIT_INVALID_ARGUMENT);
    assert_message("version");
    kind.version = PLAIT_DEVICE_VERSION;
    kind.struct_bytes = 64;
    assert_int_equal(plait_device_register(&kind), PLAIT_INVALID_ARGUMENT);
    assert_message("struct_bytes");
    kind.struct_bytes = sizeof kind;
    kind.submit = NULL;
    assert_int_equal(plait_device_register(&kind), PLAIT_INVALID_ARGUMENT);
    assert_message("submit");
    kind.submit = plait_device_kind("null")->submit;
    kind.kind = "a:b";
    assert_int_equal(plait_device_register(&kind), PLAIT_INVALID_ARGUMENT);
    kind.kind = "cpu";
    assert_int_equal(plait_device_register(&kind), PLAIT_INVALID_ARGUMENT);
    assert_message("already");
    /* A kind of an older plait, which did not know the optional slots yet. */
    kind.kind = "test-a";
    kind.struct_bytes = offsetof(plait_device_vtable, buffer_import);
    kind.buffer_import = NULL;
    int before = plait_device_kind_count();
    assert_int_equal(plait_device_register(&kind), PLAIT_OK);
    assert_int_equal(plait_device_kind_count(), before + 1);
    assert_non_null(plait_device_kind("test-a")->buffer_import);
}

static void libraries_that_are_none(void **state) {
    (void)state;
    assert_int_equal(plait_device_load(PLAIT_BINARY_DIR "/no-such-library.so"), PLAIT_NOT_FOUND);
    assert_message("no-such-library");
    /* A library that is no vendor's. */
    assert_int_equal(plait_device_load("libm.so.6"), PLAIT_INVALID_ARGUMENT);
    assert_message("plait_device_entry");
}

/* ---- a vendor's library ---- */

/* All must-haves, none of which does anything: enough to be registered and to be refused by create. */
static const char library_source[] =
    "#include \"plait/device.h\"\n"
    "static plait_status create(const char *const *o, int n, const plait_logger *l, plait_device **d)\n"
    "{ (void)o; (void)n; (void)l; (void)d; return PLAIT_UNSUPPORTED; }\n"
    "#define NONE(slot) .slot = (void *)create,\n"
    "static const plait_device_vtable vendor = {\n"
    "    .version = PLAIT_DEVICE_VERSION, .struct_bytes = sizeof(plait_device_vtable), .kind = \"vendor\",\n"
    "    .sizes = PLAIT_DEVICE_SIZES,\n"
    "    .doc = \"a test\", .create = create, NONE(destroy) NONE(describe) NONE(buffer_create)\n"
    "    NONE(buffer_destroy) NONE(event_create) NONE(event_destroy) NONE(event_query) NONE(event_wait)\n"
    "    NONE(event_signal) NONE(event_fail)\n"
    "    NONE(queue_create) NONE(queue_destroy) NONE(submit) NONE(synchronise) NONE(supports) NONE(prepare)\n"
    "    NONE(prepared_destroy) NONE(compile) NONE(program_destroy) NONE(health)};\n"
    "const plait_device_vtable *plait_device_entry(int i) { return i == 0 ? &vendor : 0; }\n";

static void a_library(void **state) {
    static const char c_file[] = PLAIT_BINARY_DIR "/test_registry_vendor.c",
                      library[] = PLAIT_BINARY_DIR "/test_registry_vendor.so";
    (void)state;
    FILE *file = fopen(c_file, "w");
    assert_non_null(file);
    assert_true(fputs(library_source, file) >= 0);
    assert_int_equal(fclose(file), 0);
    char command[2048];
    snprintf(command, sizeof command, "'%s' -std=c17 -shared -fPIC -I'%s/include' -o '%s' '%s'",
             PLAIT_C_COMPILER, PLAIT_SOURCE_DIR, library, c_file);
    assert_int_equal(system(command), 0);
    assert_int_equal(plait_device_load(library), PLAIT_OK);
    assert_non_null(plait_device_kind("vendor"));
    plait_device *device = NULL;
    assert_int_equal(plait_device_create("vendor", NULL, &device), PLAIT_UNSUPPORTED);
    /* Twice the same kind. */
    assert_int_equal(plait_device_load(library), PLAIT_INVALID_ARGUMENT);
    assert_message("already");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in_kinds),  cmocka_unit_test(wrong_items),
        cmocka_unit_test(stubs_are_typed), cmocka_unit_test(devices_say_what_they_are),
        cmocka_unit_test(refused_kinds),   cmocka_unit_test(libraries_that_are_none),
        cmocka_unit_test(a_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
