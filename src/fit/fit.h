/* Choosing what fits: the settings that were left open, tried by planning alone. */
#ifndef PLAIT_FIT_FIT_H
#define PLAIT_FIT_FIT_H

#include "model/model.h"

/* One way to set what may be left open. Layers per device are not in it: for given settings residence finds the best split
 * exactly (plan/split.h). */
typedef struct plait_fit_setting {
    int64_t context, batch;
    plait_dtype k_type, v_type;
    double give_up;     /* what it gives up, as a factor of time: 1 nothing (choose.c) */
    int64_t far_layers; /* so many layers, the first ones, have their experts on another device (experts.c) */
} plait_fit_setting;

/* Whether experts may lie apart from their layers. Memory is the model's. */
typedef struct plait_fit_experts {
    int64_t n_layers; /* whose experts may; 0: none, or the user has said where */
    int device;       /* where they would lie */
    double bytes;     /* of a layer's experts */
    plait_pin *pins;  /* the user's and, behind them, that of the experts */
    int n_user_pins;
    char *pattern;
} plait_fit_experts;

plait_status plait_fit_experts_init(plait_fit_experts *out, plait_model *model);
/* Puts the experts of the first layers on the device by a pin in the model's options; 0: leaves them to the split. */
void plait_fit_experts_pin(const plait_fit_experts *experts, plait_model *model, int64_t far_layers);

enum { PLAIT_FIT_MAX_SETTINGS = 512 };

/* All settings that the model's options leave open, of which at least one; the wished one first; experts with their layers,
 * each setting standing for all numbers of layers whose experts lie apart. Whatever else shall be chosen for the user is a
 * loop in here. Returns how many. */
int plait_fit_list(const plait_model *model, plait_fit_setting *out);

/* What the setting costs: predicted time of a typical use times what it gives up; where times are not known, in proportion. */
double plait_fit_score(const plait_fit_setting *setting, double time_ns);

/* Tries a setting: writes it into the model's options (`experts` NULL: pins stay as they are) and builds the engine.
 * *out_fits false: it does not, and the message of the last error says with which numbers; the engine is zeroed then, as
 * after a failure. `time_ns` is that of plait_engine_time. */
plait_status plait_fit_try(plait_model *model, const plait_fit_experts *experts,
                           const plait_fit_setting *setting, plait_engine *out, double *out_time_ns,
                           bool *out_fits);

/* The setting of least score that fits, in the model's options, and its engine. OUT_OF_MEMORY when none does: the numbers
 * are those of the one that needs least. *out_as_wished: it is the first of the list. */
plait_status plait_fit_choose(plait_model *model, plait_engine *out, bool *out_as_wished, int *out_n_tried);

/* The name of a type as options have it, in lower case. */
const char *plait_fit_type_name(plait_dtype type, char out[16]);

/* Writes model->flags: options that lead to this engine again. */
plait_status plait_fit_write_flags(plait_model *model, const plait_engine *engine);

#endif
