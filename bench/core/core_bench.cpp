// The time of each operation of the core, through Google Benchmark.
#include <benchmark/benchmark.h>

#include "bench/core/operations.h"

int main(int argc, char** argv) {
  for (const verbena::bench::Operation& operation : verbena::bench::operations()) {
    benchmark::RegisterBenchmark(operation.name.c_str(), [&operation](benchmark::State& state) {
      const auto run = operation.make();
      for (auto _ : state) {
        run();
      }
      state.SetItemsProcessed(state.iterations());
      state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(operation.bytes));
    });
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
