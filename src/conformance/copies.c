#include "conformance/suite.h"
void plait_conf_copies(plait_conf *c) {
    (void)c;
}
