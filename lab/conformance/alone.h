// The role `alone`: what a device's API does, observed from one process.
#pragma once

#include "lab/conformance/endpoint.h"

// Each runs cases and prints what it observes (report.h).
void observe_objects(struct device* device);
void observe_transitions(struct device* device);
void observe_traffic(struct device* device);
void observe_failures(struct device* device);
