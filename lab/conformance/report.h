// What the conformance program prints: JSON, a line for each observation.
#pragma once

#include <stdio.h>

// Prints a string with what JSON wants escaped.
void print_json_string(FILE* out, const char* text);

// {"case": ..., "step": ..., "field": ..., "value": ...}. The first three name the observation: it
// is compared with the one of the same name in another run.
void observe(const char* test_case, const char* step, const char* field, const char* format, ...)
    __attribute__((format(printf, 4, 5)));

// The name of an errno; "0" for 0. Verbs return some negated.
const char* errno_name(int error);
