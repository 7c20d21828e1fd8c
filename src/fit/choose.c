/* The search among settings. Every setting could be tried; most need not be, because a longer context never makes
 * anything faster, and nothing is faster than with unlimited memory. Not here: whether something fits, which planning
 * says (plait_engine_build), and what is done with the choice (open.c).
 *
 * Each try is a whole dry plan of all graphs, some milliseconds, so the search counts tries, not comparisons: bounds
 * are recomputed over all settings before each.
 *
 * Invariant: what is returned is at most LEAST_GAIN worse than what trying all settings would have found, as far as
 * those two laws hold. */
#include "fit/fit.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"

#include <math.h>
#include <stdlib.h>

enum { SHORTEST_CONTEXT = 512, USUAL_BATCH = 512, SMALLEST_BATCH = 64 };

/* What is given up counts as so much more time: a context of half the length, a cache of 8 bits. */
static const double HALF_CONTEXT = 1.1, SMALL_CACHE = 1.25;
/* What could be better by less than this is not looked at. */
static const double LEAST_GAIN = 0.01;
/* Leaving all experts with their layers, where that is no more than this much slower, is asked about again and again: it may
 * win where a few bytes more or less are free. */
static const double MUCH_SLOWER = 1.15;
/* Where times are not known: twice as many steps for a prompt. */
static const double HALF_BATCH = 1.1;

/* ---- what is open ---- */

/* Longest first, so the first of the list is what was wished for. A model that was trained for less than the shortest
 * has one entry. */
static int list_contexts(const plait_model *model, int64_t *out) {
    int64_t context = model->options.context ? model->options.context : model->hp.context_trained;
    int n = 0;
    out[n++] = context;
    if (model->options.context || model->options.fit_off) return n;
    while (context > SHORTEST_CONTEXT) out[n++] = context = plait_max_i64(SHORTEST_CONTEXT, context / 2);
    return n;
}

/* The usual one and halves of it; larger ones are for who asks for them. */
static int list_batches(const plait_model *model, int64_t *out) {
    int64_t batch = model->options.batch ? model->options.batch : USUAL_BATCH;
    int n = 0;
    out[n++] = batch;
    if (model->options.batch || model->options.fit_off) return n;
    while (batch > SMALLEST_BATCH) out[n++] = batch /= 2;
    return n;
}

/* Only commands that say so leave the type open: a cache of 8 bits changes what a model answers. Heads must be whole
 * blocks. */
static bool cache_can_be_small(const plait_model *model) {
    int64_t block = plait_dtype_block_elems(PLAIT_Q8_0);
    return model->options.kv_open && !model->options.kv_given && !model->options.fit_off &&
           model->hp.k_dim % block == 0 && model->hp.v_dim % block == 0;
}

/* Contexts innermost, batches around them, types outside: the search relies on settings of one batch and type standing
 * together, the longest context first. */
int plait_fit_list(const plait_model *model, plait_fit_setting *out) {
    int64_t contexts[64], batches[16];
    int n_contexts = list_contexts(model, contexts), n_batches = list_batches(model, batches), n = 0;
    int n_types = 1 + cache_can_be_small(model);
    for (int t = 0; t < n_types; t++)
        for (int b = 0; b < n_batches; b++)
            for (int c = 0; c < n_contexts; c++)
                out[n++] = (plait_fit_setting){
                    .context = contexts[c],
                    .batch = batches[b],
                    .k_type = t ? PLAIT_Q8_0 : model->options.k_type,
                    .v_type = t ? PLAIT_Q8_0 : model->options.v_type,
                    .give_up = pow(HALF_CONTEXT, log2((double)contexts[0] / (double)contexts[c])) *
                               (t ? SMALL_CACHE : 1)};
    return n;
}

/* Without times, only what is given up counts, and the smaller batch as if it had cost time: then the largest that fits
 * wins. Batches beyond the usual one are worth no more than that. */
double plait_fit_score(const plait_fit_setting *s, double time_ns) {
    double batch = s->batch < USUAL_BATCH ? (double)s->batch : USUAL_BATCH;
    double time = time_ns > 0 ? time_ns : pow(HALF_BATCH, log2(USUAL_BATCH / batch));
    return time * s->give_up;
}

/* ---- trying ---- */

/* The context is no option here: building takes it as an argument. */
static void set(plait_model *model, const plait_fit_experts *experts, const plait_fit_setting *s) {
    if (experts) plait_fit_experts_pin(experts, model, s->far_layers);
    model->options.batch = s->batch;
    model->options.k_type = s->k_type;
    model->options.v_type = s->v_type;
}

/* Full is an answer, everything else that fails is a failure of the search, as memory of the host or a broken file. */
plait_status plait_fit_try(plait_model *model, const plait_fit_experts *experts,
                           const plait_fit_setting *setting, plait_engine *out, double *out_time_ns,
                           bool *out_fits) {
    plait_engine engine = {0};
    set(model, experts, setting);
    plait_status status = plait_engine_build(model, setting->context, &engine);
    *out_fits = status == PLAIT_OK;
    if (status == PLAIT_OK) status = plait_engine_time(&engine, out_time_ns);
    if (status == PLAIT_OK) {
        *out = engine;
        return PLAIT_OK;
    }
    bool full = engine.full;
    plait_engine_destroy(&engine);
    return full ? PLAIT_OK : status;
}

typedef enum state { UNKNOWN, FITS, TOO_LARGE } state; /* of a setting: not tried, or what planning said */

typedef struct search {
    plait_model *model;
    plait_fit_setting settings[PLAIT_FIT_MAX_SETTINGS];
    double cache_bytes[PLAIT_FIT_MAX_SETTINGS]; /* by count: for comparing settings, not for judging them */
    state states[PLAIT_FIT_MAX_SETTINGS];
    double times[PLAIT_FIT_MAX_SETTINGS];
    double temporary_bytes[PLAIT_FIT_MAX_SETTINGS]; /* over all devices, of those that fit */
    int n, n_tried;
    double ideal_ns; /* of the shortest context with unlimited memory; 0: not known */
    bool timed, ideal_sought;
    int best; /* -1: none yet */
    double best_score;
    plait_engine engine; /* of the best */
    /* What temporaries took in the last setting that fitted: with the same batch and types they take as much again, which
     * saves planning twice. */
    uint64_t *reserve_bytes; /* [device] */
    int reserve_of;          /* -1: of none */
    plait_fit_experts experts;
    double *
        far_ns; /* [experts.n_layers + 1] times of the setting that is tried; NAN: not known, INFINITY: does not fit */
    int far_of;     /* the last setting whose number of layers is settled, -1: none */
    bool far_alone; /* in the last setting that told, leaving experts with their layers was much slower */
} search;

/* Bytes of all caches: as many positions as the context has, or as a window lets be seen. */
static double count_cache(const plait_model *model, const plait_fit_setting *s) {
    const plait_hparams *hp = &model->hp;
    double bytes = 0;
    for (int64_t il = 0; il < hp->n_layers; il++) {
        int64_t seen = hp->is_local[il] ? plait_min_i64(s->context, hp->window + s->batch) : s->context;
        double heads = (double)hp->n_kv_heads[il] * (double)seen;
        bytes += heads * ((double)plait_dtype_row_bytes(s->k_type, hp->k_dim) +
                          (double)plait_dtype_row_bytes(s->v_type, hp->v_dim));
    }
    return bytes * (double)model->options.sequences;
}

/* The wished type is that of the first setting. */
static bool smaller_cache(const search *s, int i) {
    return s->settings[i].k_type != s->settings[0].k_type;
}

/* Whether two settings differ in context alone, or in batch alone. */
static bool same_but_context(const plait_fit_setting *a, const plait_fit_setting *b) {
    return a->batch == b->batch && a->k_type == b->k_type;
}
static bool same_but_batch(const plait_fit_setting *a, const plait_fit_setting *b) {
    return a->context == b->context && a->k_type == b->k_type;
}

/* What lies on the device that takes experts. */
typedef struct far_view {
    double bytes;
    int n_blocks; /* whole layers */
} far_view;

static far_view view_far(const search *s, const plait_engine *engine) {
    uint64_t private_bytes, mapped_bytes, state_bytes;
    double asked, held;
    far_view view = {0};
    if (s->experts.n_layers == 0) return view;
    plait_residence_bytes(engine->residence, s->experts.device, &private_bytes, &mapped_bytes, &state_bytes);
    plait_residence_shares(engine->residence, s->experts.device, &asked, &held, &view.n_blocks);
    view.bytes = (double)private_bytes + (double)mapped_bytes + (double)state_bytes;
    return view;
}

/* Builds the setting's engine, with the experts of so many layers far, and keeps it if it is the best so far; only one
 * engine lives at a time beside the one being tried. Ties go to the earlier setting, which is the more wished for. The
 * reserve for temporaries saves a second round of residence; where it is too small, building decides again by itself. */
static plait_status try_far(search *s, int i, int64_t far_layers, far_view *out_view) {
    plait_engine engine = {0};
    plait_fit_setting *setting = &s->settings[i];
    int64_t kept_layers = setting->far_layers;
    double time_ns = 0;
    bool fits;
    if (!isnan(s->far_ns[far_layers])) return PLAIT_OK;
    /* Temporaries depend on batch and types, not on the context: what they took last is reserved from the start. */
    bool known = s->reserve_of >= 0 && same_but_context(setting, &s->settings[s->reserve_of]);
    s->n_tried++;
    s->model->reserve_bytes = known ? s->reserve_bytes : NULL;
    setting->far_layers = far_layers;
    plait_status status = plait_fit_try(s->model, &s->experts, setting, &engine, &time_ns, &fits);
    setting->far_layers = kept_layers;
    s->model->reserve_bytes = NULL;
    PLAIT_TRY(status);
    s->far_ns[far_layers] = fits ? time_ns : INFINITY;
    if (!fits) return PLAIT_OK;
    if (out_view) *out_view = view_far(s, &engine);
    s->timed = time_ns > 0;
    s->reserve_of = i;
    for (int d = 0; d < plait_context_device_count(s->model->context); d++)
        s->reserve_bytes[d] = engine.taken_bytes[d];
    if (s->states[i] == UNKNOWN || time_ns < s->times[i]) {
        s->states[i] = FITS;
        s->times[i] = time_ns;
        setting->far_layers = far_layers;
        s->temporary_bytes[i] = 0;
        for (int d = 0; d < plait_context_device_count(s->model->context); d++)
            s->temporary_bytes[i] += (double)engine.taken_bytes[d];
    }
    double score = plait_fit_score(setting, time_ns);
    bool better = s->best < 0 || score < s->best_score || (score == s->best_score && i < s->best);
    if (better) {
        plait_engine_destroy(&s->engine);
        s->engine = engine;
        s->best = i;
        s->best_score = score;
    } else {
        plait_engine_destroy(&engine);
    }
    return PLAIT_OK;
}

/* Times fall while experts that leave make room for whole layers, and rise once nothing else is far: so from any place the
 * way down leads to the least. Steps double while it goes down, and end at single layers. */
static plait_status descend(search *s, int i, int64_t at, int64_t step) {
    int64_t n = s->experts.n_layers;
    PLAIT_TRY(try_far(s, i, at, NULL));
    while (step > 0) {
        int64_t below = plait_max_i64(at - step, 0), above = plait_min_i64(at + step, n), next = at;
        PLAIT_TRY(try_far(s, i, below, NULL));
        if (s->far_ns[below] < s->far_ns[next]) next = below;
        if (next == at) PLAIT_TRY(try_far(s, i, above, NULL));
        if (next == at && s->far_ns[above] < s->far_ns[next]) next = above;
        step = next != at ? 2 * step : step / 2;
        at = next;
    }
    return PLAIT_OK;
}

/* From a good guess it is plain which way is down: more experts must leave while whole layers are far, else fewer may. One
 * step the wrong way ends it. */
static plait_status walk(search *s, int i, int64_t at) {
    int64_t n = s->experts.n_layers, step = 1;
    far_view view = {0};
    PLAIT_TRY(try_far(s, i, at, &view));
    if (s->far_ns[at] == INFINITY) return descend(s, i, at, 2);
    while (step > 0) {
        int64_t next = view.n_blocks ? at + step : at - step;
        if (next >= 0 && next <= n) PLAIT_TRY(try_far(s, i, next, NULL));
        bool down = next >= 0 && next <= n && s->far_ns[next] < s->far_ns[at];
        step = down ? 2 * step : step / 2;
        if (down) at = next;
    }
    return PLAIT_OK;
}

/* A setting like one that is settled needs as many layers more or less as its cache is larger or smaller. Otherwise the
 * split tells: what it leaves far without pins, experts alone could be instead. Where nothing is left there, nothing is
 * better. A split that fits nowhere may fit when experts, which are smaller than layers, fill what is left. */
static plait_status try_far_layers(search *s, int i) {
    int64_t n = s->experts.n_layers, guess;
    double each = s->experts.bytes;
    far_view left = {0};
    int y = s->far_of;
    if (y >= 0 && s->settings[y].far_layers > 0) {
        double more = (s->cache_bytes[i] - s->cache_bytes[y]) / each;
        guess = s->settings[y].far_layers + (int64_t)ceil(more - 0.5);
        if (guess > 0) PLAIT_TRY(walk(s, i, plait_min_i64(guess, n)));
        if (s->states[i] == FITS && s->settings[i].far_layers > 0 && s->far_alone) return PLAIT_OK;
    }
    PLAIT_TRY(try_far(s, i, 0, &left));
    if (s->states[i] == FITS && (s->settings[i].far_layers > 0 || left.bytes == 0 || !s->timed))
        return PLAIT_OK;
    guess = s->states[i] == FITS ? (int64_t)ceil(left.bytes / each) : (n + 1) / 2;
    return descend(s, i, plait_min_i64(plait_max_i64(guess, 1), n), 2);
}

static plait_status try_setting(search *s, int i) {
    for (int64_t k = 0; k <= s->experts.n_layers; k++) s->far_ns[k] = NAN;
    if (s->experts.n_layers > 0)
        PLAIT_TRY(try_far_layers(s, i));
    else
        PLAIT_TRY(try_far(s, i, 0, NULL));
    if (s->states[i] == UNKNOWN) s->states[i] = TOO_LARGE;
    if (s->states[i] != FITS) return PLAIT_OK;
    s->far_of = i;
    if (!isnan(s->far_ns[0])) s->far_alone = s->far_ns[0] > MUCH_SLOWER * s->times[i];
    return PLAIT_OK;
}

/* The shortest context, with the largest batch, and unlimited memory on every device: costs no more to plan than any
 * other. It stays unknown where a buffer would be larger than any may be. The time is a floor for all settings: none
 * has more memory, and none of the same types reads less. */
static plait_status find_ideal(search *s) {
    size_t n = (size_t)plait_context_device_count(s->model->context);
    uint64_t *budgets = plait_alloc_array(n, sizeof *budgets);
    plait_engine engine = {0};
    bool fits = false;
    if (!budgets) return plait_error_memory("fit", n * sizeof *budgets);
    for (size_t d = 0; d < n; d++) budgets[d] = UINT64_MAX;
    s->n_tried++;
    s->ideal_sought = true;
    s->model->budget_bytes = budgets;
    int shortest = 0;
    while (shortest + 1 < s->n && same_but_context(&s->settings[shortest + 1], &s->settings[0])) shortest++;
    plait_fit_setting ideal = s->settings[shortest];
    ideal.far_layers = 0;
    plait_status status = plait_fit_try(s->model, &s->experts, &ideal, &engine, &s->ideal_ns, &fits);
    s->model->budget_bytes = NULL;
    plait_engine_destroy(&engine);
    free(budgets);
    return status;
}

/* A time that setting x does not go below, as far as is known; INFINITY: it cannot fit. Time grows with what is taken from
 * the weights' memory, and with smaller batches; where a batch or type saves something, with as much as that is worth.
 * *out_from: the setting that says so, -1 if none does. */
static double least_time(const search *s, int x, int *out_from) {
    const double saved_by_type = 0.95; /* reading fewer bytes of a short cache saves this much at most */
    const plait_fit_setting *a = &s->settings[x];
    double least = s->ideal_ns * (smaller_cache(s, x) ? saved_by_type : 1);
    *out_from = -1;
    for (int y = 0; y < s->n; y++) {
        const plait_fit_setting *b = &s->settings[y];
        bool smaller = smaller_cache(s, x) && !smaller_cache(s, y);
        if (s->states[y] == TOO_LARGE && b->context <= a->context && b->batch <= a->batch && !smaller)
            return INFINITY;
        if (s->states[y] != FITS || b->batch < a->batch) continue;
        double saved = b->batch > a->batch ? s->temporary_bytes[y] : 0;
        double time = s->times[y] * (smaller ? saved_by_type : 1);
        if (s->cache_bytes[x] >= s->cache_bytes[y] + saved && time >= least) least = time, *out_from = y;
    }
    return least;
}

/* Instead of setting i, of which setting `from` (-1: none) tells that it may be better than the best, one that tells
 * more of it and its like, if there is one: the shortest context where nothing is known; the smallest batch where its
 * context was too long with a larger one; the context in the middle between its own and that of which something is
 * known. The list has longer contexts and larger batches first. So contexts are bisected, though the search only ever
 * asks for one setting: whatever the middle says, half of those between are settled by it. */
static int telling(const search *s, int i, int from) {
    const plait_fit_setting *a = &s->settings[i];
    bool too_long = false;
    int smallest = i, n_between = 0;
    for (int y = 0; y < s->n; y++) {
        const plait_fit_setting *b = &s->settings[y];
        if (same_but_batch(a, b)) too_long = too_long || s->states[y] == TOO_LARGE, smallest = y;
        if (from < 0 && s->states[y] == UNKNOWN && b->context == s->settings[s->n - 1].context) return y;
        n_between += from >= 0 && same_but_context(a, b) && b->context < a->context &&
                     b->context > s->settings[from].context;
    }
    if (too_long && s->states[smallest] == UNKNOWN) return smallest;
    int middle = i + (n_between + 1) / 2;
    return s->states[middle] == UNKNOWN ? middle : i;
}

/* The setting that may be the best, or -1: none can be better than what there is. While nothing has fitted, whatever
 * may fit is worth a try, that of the least bound first; of equals the earlier setting. */
static int next_setting(const search *s) {
    double least = s->best >= 0 ? (1 - LEAST_GAIN) * s->best_score : INFINITY;
    int next = -1, next_from = -1;
    for (int i = 0; i < s->n; i++) {
        int from;
        if (s->states[i] != UNKNOWN) continue;
        double bound = least_time(s, i, &from);
        if (!(bound < INFINITY)) continue;
        double score = plait_fit_score(&s->settings[i], bound);
        if (next >= 0 ? score < least : s->best < 0 || score < least) {
            least = score;
            next = i;
            next_from = from;
        }
    }
    return next < 0 ? next : telling(s, next, next_from);
}

/* Begins with what was wished: mostly that fits, and then the ideal shows whether anything could be better. Where
 * nothing fits, the setting that needs least is tried once more for its message, since tries in between have written
 * over it. */
static plait_status run_search(search *s) {
    for (int i = 0; i >= 0; i = next_setting(s)) {
        PLAIT_TRY(try_setting(s, i));
        if (s->n > 1 && s->timed && !s->ideal_sought) PLAIT_TRY(find_ideal(s));
    }
    if (s->best >= 0) return PLAIT_OK;
    bool fits;
    double time;
    plait_engine engine = {0};
    PLAIT_TRY(plait_fit_try(s->model, &s->experts, &s->settings[s->n - 1], &engine, &time, &fits));
    plait_engine_destroy(&engine);
    if (fits) return plait_error(PLAIT_INTERNAL, "what did not fit does now");
    const char *path = plait_gguf_path(s->model->gguf);
    const plait_fit_setting *last = &s->settings[s->n - 1];
    char type[16];
    if (s->n == 1) return plait_error_context(PLAIT_OUT_OF_MEMORY, "%s", path);
    return plait_error_context(
        PLAIT_OUT_OF_MEMORY, "%s: nothing fits, not even --ctx %lld --batch %lld --kv %s", path,
        (long long)last->context, (long long)last->batch, plait_fit_type_name(last->k_type, type));
}

static void search_destroy(search *s) {
    if (!s) return;
    plait_engine_destroy(&s->engine);
    free(s->reserve_bytes);
    free(s->far_ns);
    free(s);
}

static plait_status search_create(search **out, plait_model *model) {
    size_t n_devices = (size_t)plait_context_device_count(model->context);
    search *s = plait_alloc_array(1, sizeof *s);
    if (!s) return plait_error_memory("fit", sizeof *s);
    s->model = model;
    s->best = s->reserve_of = s->far_of = -1;
    plait_status status = plait_fit_experts_init(&s->experts, model);
    s->reserve_bytes = plait_alloc_array(n_devices, sizeof *s->reserve_bytes);
    s->far_ns = plait_alloc_array((size_t)s->experts.n_layers + 1, sizeof *s->far_ns);
    if (status == PLAIT_OK && (!s->reserve_bytes || !s->far_ns)) status = plait_error_memory("fit", 0);
    if (status != PLAIT_OK) {
        search_destroy(s);
        return status;
    }
    s->n = plait_fit_list(model, s->settings);
    for (int i = 0; i < s->n; i++) s->cache_bytes[i] = count_cache(model, &s->settings[i]);
    *out = s;
    return PLAIT_OK;
}

/* Proofs are made once, of what is chosen: they say nothing about what fits. The options are left as the chosen setting
 * has them. */
plait_status plait_fit_choose(plait_model *model, plait_engine *out, bool *out_as_wished, int *out_n_tried) {
    search *s;
    PLAIT_TRY(search_create(&s, model));
    bool unproved = model->options.skip_verify;
    model->options.skip_verify = true; /* what is not chosen needs no proof */
    plait_status status = run_search(s);
    model->options.skip_verify = unproved;
    if (status == PLAIT_OK && !unproved) status = plait_engine_prove(&s->engine);
    if (status == PLAIT_OK) {
        set(model, &s->experts, &s->settings[s->best]);
        *out = s->engine;
        s->engine = (plait_engine){0};
        *out_as_wished = s->best == 0;
        *out_n_tried = s->n_tried;
    }
    search_destroy(s);
    return status;
}
