#include "conformance/suite.h"
void plait_conf_programs(plait_conf *c) {
    (void)c;
}
