// core_repeat OPERATION COUNT: does an operation COUNT times. Under callgrind the difference
// between two counts is what one operation costs, whatever its preparation.
//
// core_repeat alone lists the operations.
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "bench/core/operations.h"

int main(int argc, char** argv) {
  for (const verbena::bench::Operation& operation : verbena::bench::operations()) {
    if (argc != 3) {
      std::cout << operation.name << '\n';
    } else if (operation.name == std::string_view(argv[1])) {
      const auto run = operation.make();
      for (long i = std::atol(argv[2]); i > 0; --i) {
        run();
      }
      return EXIT_SUCCESS;
    }
  }
  return argc == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
