#include "lab/conformance/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { value_bytes_max = 512 };

void print_json_string(FILE* out, const char* text) {
  fputc('"', out);
  for (; *text != '\0'; ++text) {
    const unsigned char letter = (unsigned char)*text;
    if (letter == '"' || letter == '\\') {
      fprintf(out, "\\%c", letter);
    } else if (letter < 0x20 || letter > 0x7e) {
      fprintf(out, "\\u%04x", letter);
    } else {
      fputc(letter, out);
    }
  }
  fputc('"', out);
}

void observe(const char* test_case, const char* step, const char* field, const char* format, ...) {
  char value[value_bytes_max];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(value, sizeof value, format, arguments);
  va_end(arguments);
  const char* const names[] = {"case", "step", "field", "value"};
  const char* const texts[] = {test_case, step, field, value};
  for (int i = 0; i < 4; ++i) {
    printf("%s\"%s\": ", i == 0 ? "{" : ", ", names[i]);
    print_json_string(stdout, texts[i]);
  }
  printf("}\n");
  fflush(stdout);
}

const char* errno_name(int error) {
  const char* name = strerrorname_np(abs(error));
  return error == 0 ? "0" : name != NULL ? name : "?";
}
