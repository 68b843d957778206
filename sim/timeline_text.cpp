// A timeline for the terminal: one line an arrow or note, in ASCII but for the lost packets' mark.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "faults/units.h"
#include "sim/timeline.h"

namespace verbena::sim {
namespace {

constexpr std::size_t time_width = 13;
constexpr std::size_t gap_min = 24;

class TextLadder {
 public:
  TextLadder(const Timeline& timeline, std::size_t width) : timeline_(timeline) {
    const std::size_t columns = std::max<std::size_t>(timeline.columns.size(), 2);
    // The space behind the last column is for its notes and the arrows' fates.
    const std::size_t room = width > time_width + 1 ? width - time_width - 1 : 0;
    gap_ = std::max(gap_min, room * 2 / (2 * columns - 1));
  }

  std::string render() {
    text_ = timeline_.title + "\n\n";
    std::string head = std::string(time_width, ' ');
    for (std::size_t i = 0; i < timeline_.columns.size(); ++i) {
      head.resize(std::max(head.size(), position(i)), ' ');
      head += timeline_.columns[i] + " ";
    }
    text_ += head + "\n";
    for (const TimelineMoment& moment : moments_of(timeline_)) {
      if (moment.kind == TimelineMoment::Kind::note) {
        add_note(timeline_.notes[moment.index]);
      } else if (moment.kind == TimelineMoment::Kind::sent) {
        add_arrow(timeline_.arrows[moment.index]);
      }
    }
    if (timeline_.arrows_left_out > 0) {
      text_ += fmt::format("... and {} more packets\n", timeline_.arrows_left_out);
    }
    return std::move(text_);
  }

 private:
  [[nodiscard]] std::size_t position(std::size_t column) const {
    return time_width + 1 + column * gap_;
  }

  /// A line with the time and the columns' bars.
  std::string ruled(Duration at) const {
    std::string line = fmt::format("{:>{}}", faults::duration_text(at), time_width - 1);
    line.resize(position(std::max<std::size_t>(timeline_.columns.size(), 1) - 1) + 1, ' ');
    for (std::size_t i = 0; i < timeline_.columns.size(); ++i) {
      line[position(i)] = '|';
    }
    return line;
  }

  void add_note(const Timeline::Note& note) {
    std::string line = ruled(note.at);
    const std::string shown = fmt::format("{} {}", note.is_bad ? "!" : "*", note.text);
    const std::size_t begin = position(note.column) + 2;
    const bool is_last = note.column + 1 == timeline_.columns.size();
    // Bars that the text would cover give way to it.
    line.replace(std::min(begin, line.size()), is_last ? 0 : shown.size(),
                 is_last ? " " + shown : shown);
    text_ += line + "\n";
  }

  void add_arrow(const Timeline::Arrow& arrow) {
    std::string line = ruled(arrow.sent);
    const bool to_right = arrow.to > arrow.from;
    const std::size_t left = position(std::min(arrow.from, arrow.to));
    const std::size_t right = position(std::max(arrow.from, arrow.to));
    const std::size_t room = right - left - 1;
    std::string shaft(room, arrow.is_again ? '=' : '-');
    // The label stands at the sender's end, cut if it doesn't fit.
    std::string label = " " + arrow.label;
    label.resize(std::min(label.size(), room > 8 ? room - 8 : 0));
    label += " ";
    const std::size_t at = to_right ? 3 : room - 3 - label.size();
    if (room > 8) {
      shaft.replace(at, label.size(), label);
    }
    std::string tail;
    if (arrow.is_lost) {
      // Lost: the mark stands where the head would be.
      shaft[to_right ? room - 2 : 1] = 'X';
      shaft[to_right ? room - 1 : 0] = ' ';
      tail = "  lost";
    } else if (room > 0) {
      shaft[to_right ? room - 1 : 0] = to_right ? '>' : '<';
    }
    line.replace(left + 1, room, shaft);
    for (const std::string& remark : {arrow.why, arrow.fate}) {
      if (!remark.empty()) {
        tail += fmt::format("{} {}", tail.empty() ? "  #" : ";", remark);
      }
    }
    text_ += line + tail + "\n";
  }

  const Timeline& timeline_;
  std::size_t gap_ = gap_min;
  std::string text_;
};

}  // namespace

std::string render_text(const Timeline& timeline, std::size_t width) {
  return TextLadder(timeline, width).render();
}

std::string render_text(std::span<const Timeline> timelines, std::size_t width) {
  if (timelines.size() == 1) {
    return render_text(timelines.front(), width);
  }
  constexpr std::string_view gutter = "   ";
  const std::size_t share =
      std::max(beside_width_min, width / std::max<std::size_t>(timelines.size(), 1));
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < timelines.size(); ++i) {
    const std::string text = render_text(timelines[i], share - gutter.size());
    std::size_t row = 0;
    for (std::size_t begin = 0; begin < text.size(); ++row) {
      const std::size_t end = text.find('\n', begin);
      lines.resize(std::max(lines.size(), row + 1));
      // What those before it are shorter by.
      lines[row].resize(i * share, ' ');
      lines[row] += text.substr(begin, std::min(end - begin, share - gutter.size()));
      begin = end + 1;
    }
  }
  std::string text;
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace verbena::sim
