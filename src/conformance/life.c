#include "conformance/suite.h"
void plait_conf_life(plait_conf *c) {
    (void)c;
}
