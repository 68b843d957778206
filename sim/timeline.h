// Ladder diagrams: hosts as columns, time downwards, one arrow a packet; lost ones are marked,
// completions and state changes stand at the columns. Read first: docs/scenarios.md, "Timelines".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "sim/scenario/run.h"

namespace verbena::sim {

struct Timeline {
  enum class Style : std::uint8_t { request, response, refusal };

  struct Arrow {
    std::size_t from = 0;
    std::size_t to = 0;
    /// Since the beginning. `arrived` is absent if the packet was lost, or nobody saw it arrive.
    Duration sent{};
    std::optional<Duration> arrived;
    std::string label;
    /// Why it is sent again; may be empty.
    std::string why;
    /// Why it was lost, or what the receiver says against it; may be empty.
    std::string fate;
    Style style = Style::request;
    bool is_lost = false;
    bool is_again = false;
  };

  struct Note {
    std::size_t column = 0;
    Duration at{};
    std::string text;
    /// Errors and states are drawn with emphasis.
    bool is_bad = false;
  };

  std::string title;
  std::vector<std::string> columns;
  std::vector<Arrow> arrows;
  std::vector<Note> notes;
  /// Arrows that were left out at the end because there were too many.
  std::size_t arrows_left_out = 0;
};

/// What a diagram shows at most, so that it stays one.
inline constexpr std::size_t arrows_max_default = 200;

[[nodiscard]] Timeline timeline_of(const ScenarioResult& result, std::string title,
                                   std::size_t arrows_max);

/// From a capture: the packets alone. Where both ends were captured, equal frames are paired. The
/// error is a sentence that names the file.
[[nodiscard]] Result<Timeline, std::string> timeline_of_capture(const std::string& path,
                                                                std::size_t arrows_max);

/// For a terminal of that many columns.
[[nodiscard]] std::string render_text(const Timeline& timeline, std::size_t width);

/// Several beside each other, each at least beside_width_min wide; what is wider than its share is
/// cut.
[[nodiscard]] std::string render_text(std::span<const Timeline> timelines, std::size_t width);
inline constexpr std::size_t beside_width_min = 100;

/// A picture of its own, text and all; several are beside each other.
[[nodiscard]] std::string render_svg(std::span<const Timeline> timelines);
[[nodiscard]] inline std::string render_svg(const Timeline& timeline) {
  return render_svg(std::span<const Timeline>(&timeline, 1));
}

/// A page with the picture.
[[nodiscard]] std::string render_html(std::span<const Timeline> timelines);

/// One thing of a timeline in the order in which a diagram shows them. Internal to the renderers.
struct TimelineMoment {
  enum class Kind : std::uint8_t { sent, arrived, note };
  Duration at{};
  Kind kind = Kind::note;
  /// Of arrows or notes.
  std::size_t index = 0;
};
[[nodiscard]] std::vector<TimelineMoment> moments_of(const Timeline& timeline);

}  // namespace verbena::sim
