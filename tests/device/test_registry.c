/* The registry of device kinds: what is built in, what is refused, items of a device list, stubs of optional slots,
 * libraries of vendors, good and bad. */
/* monitor: no */
/* needs: plait_shared */
#include <pthread.h>
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
        assert_non_null(kind->expand);
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
    kind.struct_bytes = 1 << 20;
    assert_int_equal(plait_device_register(&kind), PLAIT_INVALID_ARGUMENT);
    assert_message("struct_bytes");
    kind.struct_bytes = sizeof kind;
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

/* ---- libraries ---- */

/* All must-haves, none of which does anything: enough to be registered and to be refused by create. What is wrong with
 * the library is said by macros. */
static const char library_source[] =
    "#include <plait/device.h>\n"
    "#ifndef KIND\n"
    "#define KIND \"vendor\"\n"
    "#endif\n"
    "#ifndef BAD\n"
    "#define BAD\n"
    "#endif\n"
    "#ifndef KINDS\n"
    "#define KINDS &vendor\n"
    "#endif\n"
    "static plait_status create(const char *const *o, int n, const plait_logger *l, plait_device **d)\n"
    "{ (void)o; (void)n; (void)l; (void)d; return RESULT; }\n"
    "#define NONE(slot) .slot = (void *)create,\n"
    "#define VENDOR(name) { \\\n"
    "    .version = PLAIT_DEVICE_VERSION, .struct_bytes = sizeof(plait_device_vtable), .kind = name, \\\n"
    "    .sizes = PLAIT_DEVICE_SIZES, \\\n"
    "    .doc = \"a test\", .create = create, NONE(destroy) NONE(describe) NONE(buffer_create) \\\n"
    "    NONE(buffer_destroy) NONE(event_create) NONE(event_destroy) NONE(event_query) NONE(event_wait) \\\n"
    "    NONE(event_signal) NONE(event_fail) \\\n"
    "    NONE(queue_create) NONE(queue_destroy) NONE(submit) NONE(synchronise) NONE(supports) NONE(prepare) "
    "\\\n"
    "    NONE(prepared_destroy) NONE(compile) NONE(program_destroy) NONE(health) BAD }\n"
    "static const plait_device_vtable vendor = VENDOR(KIND), other = VENDOR(\"other\");\n"
    "const plait_device_vtable *plait_device_entry(int i)\n"
    "{ static const plait_device_vtable *const all[] = {KINDS};\n"
    "  (void)other;\n"
    "#ifdef ENDLESS\n"
    "  static plait_device_vtable many[100]; static char names[100][8];\n"
    "  if (i >= 100) return 0;\n"
    "  many[i] = vendor; names[i][0] = 'k'; names[i][1] = (char)('0' + i / 10);\n"
    "  names[i][2] = (char)('0' + i % 10); many[i].kind = names[i]; return &many[i];\n"
    "#else\n"
    "  return i < (int)(sizeof all / sizeof *all) ? all[i] : 0;\n"
    "#endif\n"
    "}\n";

/* Compiles the source above with these flags; returns the library's path, which is valid until the next call. */
static const char *build_library(const char *name, const char *flags) {
    static const char c_file[] = PLAIT_BINARY_DIR "/test_registry_vendor.c";
    static char library[1024];
    char command[4096];
    FILE *file = fopen(c_file, "w");
    assert_non_null(file);
    assert_true(fputs(library_source, file) >= 0);
    assert_int_equal(fclose(file), 0);
    snprintf(library, sizeof library, "%s/test_registry_%s.so", PLAIT_BINARY_DIR, name);
    snprintf(command, sizeof command,
             "'%s' -std=c17 -w -shared -fPIC -DRESULT=PLAIT_UNSUPPORTED -I'%s/include' -o '%s' '%s' %s",
             PLAIT_C_COMPILER, PLAIT_SOURCE_DIR, library, c_file, flags);
    assert_int_equal(system(command), 0);
    return library;
}

static void files_that_are_no_libraries(void **state) {
    (void)state;
    static const struct {
        const char *path;
        plait_status status;
        const char *message;
    } cases[] = {
        {PLAIT_BINARY_DIR "/no-such-library.so", PLAIT_NOT_FOUND, "no-such-library.so\": No such file"},
        {"no-such-library.so", PLAIT_NOT_FOUND, "cannot open shared object"},
        {PLAIT_SOURCE_DIR "/tests", PLAIT_INVALID_ARGUMENT, "it is no file"},
        {"/dev/null", PLAIT_INVALID_ARGUMENT, "it is no file"},
        {"", PLAIT_INVALID_ARGUMENT, "expected the path"},
        {PLAIT_SOURCE_DIR "/README.md", PLAIT_INVALID_ARGUMENT, "README.md: "},
        /* A library that is no vendor's; found by the loader. */
        {"libm.so.6", PLAIT_INVALID_ARGUMENT, "it exports no plait_device_entry"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (plait_device_load(cases[i].path) != cases[i].status)
            fail_msg("\"%s\": %s", cases[i].path, plait_error_message());
        assert_message(cases[i].message);
        assert_message("device library \"");
    }
}

static void bad_libraries(void **state) {
    (void)state;
    static const struct {
        const char *flags;
        plait_status status;
        const char *message;
    } cases[] = {
        {"-D'BAD=.version=1,'", PLAIT_INVALID_ARGUMENT, "interface version 1, expected "},
        {"-D'BAD=.struct_bytes=0,'", PLAIT_INVALID_ARGUMENT, "struct_bytes is 0"},
        {"-D'BAD=.struct_bytes=(size_t)1<<60,'", PLAIT_INVALID_ARGUMENT,
         "struct_bytes is 1152921504606846976"},
        {"-D'BAD=.struct_bytes=sizeof(plait_device_vtable)+1,'", PLAIT_INVALID_ARGUMENT, "struct_bytes"},
        {"-D'BAD=.sizes.command=7,'", PLAIT_INVALID_ARGUMENT, "plait_command has 7 bytes"},
        {"-D'BAD=.sizes.use=0,'", PLAIT_INVALID_ARGUMENT, "plait_op_use has 0 bytes"},
        {"-D'BAD=.kind=0,'", PLAIT_INVALID_ARGUMENT, "expected a name"},
        {"-D'BAD=.kind=\"a\\tb\",'", PLAIT_INVALID_ARGUMENT, "expected a name"},
        {"-D'BAD=.kind=\"a,b\",'", PLAIT_INVALID_ARGUMENT, "expected a name"},
        {"-D'BAD=.kind=\"a name of thirty-two bytes so far.\",'", PLAIT_INVALID_ARGUMENT, "1 to 31"},
        {"-D'BAD=.submit=0,'", PLAIT_INVALID_ARGUMENT, "lacks the must-have submit"},
        {"-D'BAD=.event_fail=0,'", PLAIT_INVALID_ARGUMENT, "lacks the must-have event_fail"},
        {"-D'KIND=\"cpu\"'", PLAIT_INVALID_ARGUMENT, "cpu is registered already"},
        {"-D'KINDS=0'", PLAIT_INVALID_ARGUMENT, "it has no device kind"},
        {"-D'KINDS=(void*)&vendor.kind-1'", PLAIT_INVALID_ARGUMENT, "is no address of a table"},
        {"-D'KINDS=&vendor,&vendor'", PLAIT_INVALID_ARGUMENT, "vendor is there already as number 0"},
        {"-D'ENDLESS'", PLAIT_LIMIT, "more than 32 device kinds"},
        {"-Dplait_device_entry=another_entry", PLAIT_INVALID_ARGUMENT, "exports no plait_device_entry"},
        {"-fvisibility=hidden", PLAIT_INVALID_ARGUMENT, "exports no plait_device_entry"},
        /* Compiled against a plait that had a function which this one lacks. */
        {"-D'RESULT=plait_of_tomorrow()'", PLAIT_INVALID_ARGUMENT, "undefined symbol: plait_of_tomorrow"},
        /* This program has a libplait of its own inside. */
        {"-Wl,--no-as-needed -L'" PLAIT_BINARY_DIR "' -lplait -Wl,-rpath,'" PLAIT_BINARY_DIR "'",
         PLAIT_INVALID_ARGUMENT, "it uses the plait in " PLAIT_BINARY_DIR "/libplait.so"},
    };
    int before = plait_device_kind_count();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[16];
        snprintf(name, sizeof name, "bad%zu", i); /* the loader knows files by name */
        plait_status status = plait_device_load(build_library(name, cases[i].flags));
        if (status != cases[i].status)
            fail_msg("%s: %s, %s", cases[i].flags, plait_status_name(status), plait_error_message());
        assert_message(cases[i].message);
        printf("%s\n", plait_error_message());
    }
    assert_int_equal(plait_device_kind_count(), before);
}

/* Of a library with a good kind and a bad one nothing stays. */
static void all_kinds_or_none(void **state) {
    (void)state;
    int before = plait_device_kind_count();
    assert_int_equal(plait_device_load(build_library("half", "-D'KINDS=&other,&vendor' -D'KIND=\"null\"'")),
                     PLAIT_INVALID_ARGUMENT);
    assert_message("null is registered already");
    assert_int_equal(plait_device_kind_count(), before);
    assert_null(plait_device_kind("other"));
}

static void a_library(void **state) {
    (void)state;
    const char *library = build_library("good", "-D'KINDS=&vendor,&other'");
    int before = plait_device_kind_count();
    assert_int_equal(plait_device_load(library), PLAIT_OK);
    assert_int_equal(plait_device_kind_count(), before + 2);
    assert_non_null(plait_device_kind("vendor"));
    assert_string_equal(plait_device_kind("other")->doc, "a test");
    plait_device *device = NULL;
    assert_int_equal(plait_device_create("vendor", NULL, &device), PLAIT_UNSUPPORTED);
    assert_null(device);
    /* Twice the same kind. */
    assert_int_equal(plait_device_load(library), PLAIT_INVALID_ARGUMENT);
    assert_message("already");
    /* The refused load has not unloaded what the first one needs. */
    assert_string_equal(plait_device_kind("vendor")->doc, "a test");
}

/* A kind whose create says OK and gives nothing. */
static void an_empty_create(void **state) {
    (void)state;
    plait_device *device = NULL;
    assert_int_equal(
        plait_device_load(build_library("empty", "-URESULT -DRESULT=PLAIT_OK -D'KIND=\"empty\"'")), PLAIT_OK);
    assert_int_equal(plait_device_create("empty", NULL, &device), PLAIT_INTERNAL);
    assert_message("no device");
    assert_null(device);
}

enum { LOADERS = 8 };

typedef struct loader {
    pthread_t thread;
    char own[1024];
    const char *same;
    plait_status own_status, same_status;
} loader;

static void *load_both(void *argument) {
    loader *l = argument;
    l->own_status = plait_device_load(l->own);
    l->same_status = plait_device_load(l->same);
    for (int i = 0; i < plait_device_kind_count(); i++)
        if (!plait_device_kind_at(i)->kind) l->own_status = PLAIT_INTERNAL;
    return NULL;
}

/* Threads that load a library each, and one that all of them want: just one of them gets it. */
static void many_loaders(void **state) {
    (void)state;
    static loader loaders[LOADERS];
    char same[1024], flags[64], name[16];
    int before = plait_device_kind_count(), n_same = 0;
    snprintf(same, sizeof same, "%s", build_library("same", "-D'KIND=\"same\"'"));
    for (int i = 0; i < LOADERS; i++) {
        snprintf(name, sizeof name, "own%d", i);
        snprintf(flags, sizeof flags, "-D'KIND=\"own-%d\"'", i);
        snprintf(loaders[i].own, sizeof loaders[i].own, "%s", build_library(name, flags));
        loaders[i].same = same;
    }
    for (int i = 0; i < LOADERS; i++)
        assert_int_equal(pthread_create(&loaders[i].thread, NULL, load_both, &loaders[i]), 0);
    for (int i = 0; i < LOADERS; i++) {
        assert_int_equal(pthread_join(loaders[i].thread, NULL), 0);
        assert_int_equal(loaders[i].own_status, PLAIT_OK);
        n_same += loaders[i].same_status == PLAIT_OK;
    }
    assert_int_equal(n_same, 1);
    assert_int_equal(plait_device_kind_count(), before + LOADERS + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in_kinds),  cmocka_unit_test(wrong_items),
        cmocka_unit_test(stubs_are_typed), cmocka_unit_test(devices_say_what_they_are),
        cmocka_unit_test(refused_kinds),   cmocka_unit_test(files_that_are_no_libraries),
        cmocka_unit_test(bad_libraries),   cmocka_unit_test(all_kinds_or_none),
        cmocka_unit_test(a_library),       cmocka_unit_test(an_empty_create),
        cmocka_unit_test(many_loaders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
