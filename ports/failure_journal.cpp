#include "ports/failure_journal.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "ports/fabric_file.h"
#include "ports/sys.h"

namespace verbena::ports {

namespace {

using Words = std::array<std::uint64_t, failure_words>;

Words words_of(std::string_view text) {
  Words words{};
  std::memcpy(words.data(), text.data(), std::min(text.size(), sizeof(words)));
  return words;
}

/// Anybody may have written anything there: what a terminal might obey becomes a question mark.
std::string text_of(const Words& words) {
  std::array<char, sizeof(Words)> letters{};
  std::memcpy(letters.data(), words.data(), sizeof(words));
  std::string text(letters.begin(), std::ranges::find(letters, '\0'));
  std::ranges::replace_if(text, [](char letter) { return letter < ' ' || letter > '~'; }, '?');
  return text;
}

/// nullopt if the entry was never written, or is being written.
std::optional<Failure> read(const FailureEntry& entry) {
  const std::uint32_t before = entry.version.load(std::memory_order_acquire);
  const std::int64_t time = entry.time.load(std::memory_order_relaxed);
  const std::int32_t pid = entry.pid.load(std::memory_order_relaxed);
  Words words{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = entry.text[i].load(std::memory_order_relaxed);
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  const std::uint32_t after = entry.version.load(std::memory_order_relaxed);
  if (time <= 0 || before != after || before % 2 != 0) {
    return std::nullopt;
  }
  return Failure{.time = Time(Duration(time)), .pid = pid, .sentence = text_of(words)};
}

}  // namespace

void note_failure(Fabric& fabric, Time now, std::string_view sentence) {
  FailureJournal& journal = fabric.journal();
  const std::uint32_t number = journal.written.fetch_add(1, std::memory_order_relaxed);
  FailureEntry& entry = journal.entries[number % failures_max];
  const std::uint32_t version = entry.version.load(std::memory_order_relaxed) & ~1U;
  entry.version.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry.time.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  entry.pid.store(sys::process_id(), std::memory_order_relaxed);
  const Words words = words_of(sentence);
  for (std::size_t i = 0; i < words.size(); ++i) {
    entry.text[i].store(words[i], std::memory_order_relaxed);
  }
  entry.version.store(version + 2, std::memory_order_release);
}

Result<std::vector<Failure>, std::string> read_failures(const std::string& fabric_path) {
  auto opened = open_fabric(fabric_path);
  if (!opened) {
    return std::unexpected(std::move(opened.error()));
  }
  std::vector<Failure> failures;
  if (!*opened) {
    return failures;
  }
  for (const FailureEntry& entry : (*opened)->file().failures.entries) {
    if (auto failure = read(entry)) {
      failures.push_back(std::move(*failure));
    }
  }
  std::ranges::sort(failures, {}, &Failure::time);
  return failures;
}

}  // namespace verbena::ports
