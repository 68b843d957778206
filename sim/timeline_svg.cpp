// A timeline as SVG. Time runs downwards, but not to scale: each moment has a place of its own, and
// where much time passes a gap tells how much.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "faults/units.h"
#include "sim/timeline.h"

namespace verbena::sim {
namespace {

// Sizes in pixels.
constexpr int time_width = 110;
/// Beside the first and the last column, at least: where notes and remarks stand.
constexpr int margin_min = 60;
/// Room for a label from either side.
constexpr int column_gap = 680;
constexpr int head_height = 84;
constexpr int sent_height = 30;
// As high as a sent one, so that the arrows of a burst are parallel.
constexpr int arrived_height = 30;
constexpr int note_height = 24;
constexpr int pause_height = 34;
constexpr int foot_height = 64;

/// A lost packet's arrow ends at this part of its way.
constexpr double lost_at = 0.8;
/// Widths of an average character. Fonts differ, so these are on the large side.
constexpr double note_character = 8.4;
constexpr double remark_character = 6.6;

/// So much time without anything is shown as a pause.
constexpr Duration pause_min{20'000};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        // Control characters are not permitted in XML.
        result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        break;
    }
  }
  return result;
}

constexpr std::string_view style_sheet = R"(<style>
text { font-family: "DejaVu Sans", "Helvetica", sans-serif; font-size: 13px; fill: #222; }
.title { font-size: 19px; font-weight: bold; }
.host { font-size: 16px; font-weight: bold; text-anchor: middle; }
.time { font-size: 11px; fill: #777; text-anchor: end; }
.label { paint-order: stroke; stroke: #fff; stroke-width: 5px; }
.remark { font-size: 11px; fill: #b00020; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
.why { font-size: 11px; fill: #777; }
.bad { fill: #b00020; font-weight: bold; }
.column { stroke: #999; stroke-width: 2; }
.pause { stroke: #bbb; stroke-dasharray: 2 5; }
line.request { stroke: #1f5fbf; stroke-width: 2; }
line.response { stroke: #1d8348; stroke-width: 2; }
line.refusal { stroke: #b00020; stroke-width: 2; }
line.again { stroke-dasharray: 8 4; }
path.request { fill: #1f5fbf; } path.response { fill: #1d8348; } path.refusal { fill: #b00020; }
</style>
)";

std::string_view class_of(Timeline::Style style) {
  switch (style) {
    case Timeline::Style::request:
      return "request";
    case Timeline::Style::response:
      return "response";
    case Timeline::Style::refusal:
      break;
  }
  return "refusal";
}

/// "dropped by rule 1 (drop count=1)" and "refused by the PSN check: expected ..., got ...
/// (counter)" without what is in parentheses.
std::string_view short_fate(std::string_view fate) { return fate.substr(0, fate.find(" (")); }

/// A ladder without what makes a file of it.
struct Drawing {
  int width = 0;
  int height = 0;
  std::string body;
};

class SvgLadder {
 public:
  explicit SvgLadder(const Timeline& timeline)
      : timeline_(timeline),
        sent_y_(timeline.arrows.size()),
        arrived_y_(timeline.arrows.size()),
        note_y_(timeline.notes.size()) {
    for (const Timeline::Note& note : timeline.notes) {
      make_room(note.column, note.text.size(), note_character);
    }
    for (const Timeline::Arrow& arrow : timeline.arrows) {
      if (arrow.is_lost) {
        note_rule(arrow.fate);
      } else {
        make_room(arrow.to, short_fate(arrow.fate).size(), remark_character);
      }
    }
  }

  Drawing draw() {
    place_moments();
    const int width = x_of(last_column()) + right_width_;
    const int height = y_ + foot_height + static_cast<int>(rules_.size()) * note_height;
    std::string head = fmt::format("<text class=\"title\" x=\"24\" y=\"34\">{}</text>\n",
                                   escaped(timeline_.title));
    for (std::size_t i = 0; i < timeline_.columns.size(); ++i) {
      head += fmt::format("<text class=\"host\" x=\"{}\" y=\"{}\">{}</text>\n", x_of(i),
                          head_height - 14, escaped(timeline_.columns[i]));
      head += fmt::format("<line class=\"column\" x1=\"{0}\" y1=\"{1}\" x2=\"{0}\" y2=\"{2}\"/>\n",
                          x_of(i), head_height, y_);
    }
    for (std::size_t i = 0; i < timeline_.arrows.size(); ++i) {
      draw_arrow(i);
    }
    for (std::size_t i = 0; i < timeline_.notes.size(); ++i) {
      draw_note(i);
    }
    draw_rules(height);
    draw_legend(height);
    return {.width = width, .height = height, .body = head + back_ + lines_ + labels_};
  }

 private:
  [[nodiscard]] int x_of(std::size_t column) const {
    return time_width + left_width_ + static_cast<int>(column) * column_gap;
  }
  [[nodiscard]] std::size_t last_column() const {
    return std::max<std::size_t>(timeline_.columns.size(), 2) - 1;
  }

  void make_room(std::size_t column, std::size_t characters, double character_width) {
    const int wanted =
        margin_min + static_cast<int>(static_cast<double>(characters) * character_width);
    if (column == 0) {
      left_width_ = std::max(left_width_, wanted);
    } else if (column == last_column()) {
      right_width_ = std::max(right_width_, wanted);
    }
  }

  /// What a rule of faults says is written once, at the foot.
  void note_rule(std::string_view fate) {
    const auto begin = fate.find("rule ");
    if (begin != std::string_view::npos) {
      std::string rule(fate.substr(begin));
      if (std::ranges::find(rules_, rule) == rules_.end()) {
        rules_.push_back(std::move(rule));
      }
    }
  }

  void draw_rules(int height) {
    int y = height - foot_height + 12 - static_cast<int>(rules_.size()) * note_height;
    for (const std::string& rule : rules_) {
      y += note_height;
      labels_ += fmt::format("<text class=\"why\" x=\"24\" y=\"{}\">{}</text>\n", y, escaped(rule));
    }
  }

  void place_moments() {
    Duration before{};
    Duration labelled = Duration(-1);
    y_ = head_height + 10;
    for (const TimelineMoment& moment : moments_of(timeline_)) {
      if (moment.at - before >= pause_min) {
        draw_pause(moment.at - before);
      }
      before = moment.at;
      switch (moment.kind) {
        case TimelineMoment::Kind::sent:
          y_ += sent_height;
          sent_y_[moment.index] = y_;
          if (timeline_.arrows[moment.index].is_lost) {
            lost_until_y_ = y_ + sent_height;
          }
          break;
        case TimelineMoment::Kind::arrived:
          // Where the one before it in the burst would have arrived stays empty.
          y_ += arrived_height * (moment.index > 0 && was_lost_before(moment.index) ? 2 : 1);
          arrived_y_[moment.index] = y_;
          break;
        case TimelineMoment::Kind::note:
          y_ += note_height;
          note_y_[moment.index] = y_;
          break;
      }
      if (moment.at != labelled && y_ - last_time_y_ >= 12) {
        labelled = moment.at;
        last_time_y_ = y_;
        back_ += fmt::format("<text class=\"time\" x=\"{}\" y=\"{}\">{}</text>\n", time_width - 14,
                             y_ + 4, faults::duration_text(moment.at));
      }
    }
    // A lost packet's arrow needs its length below where it was sent.
    y_ += sent_height + arrived_height;
    if (timeline_.arrows_left_out > 0) {
      y_ += note_height;
      back_ += fmt::format("<text x=\"{}\" y=\"{}\">… and {} more packets</text>\n", x_of(0) + 12,
                           y_, timeline_.arrows_left_out);
    }
  }

  void draw_pause(Duration duration) {
    y_ = std::max(y_, lost_until_y_);
    const int at = y_ + pause_height / 2 + 6;
    back_ += fmt::format("<line class=\"pause\" x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\"/>\n",
                         time_width, at, x_of(last_column()) + 60);
    back_ += fmt::format("<text class=\"time\" x=\"{}\" y=\"{}\">{} pass</text>\n", time_width + 92,
                         at - 5, faults::duration_text(duration));
    y_ += pause_height;
  }

  /// Sent by the same host to the same one, nearly at the same time.
  [[nodiscard]] bool are_of_a_burst(const Timeline::Arrow& a, const Timeline::Arrow& b) const {
    constexpr Duration burst_max{1'000};
    return a.from == b.from && a.to == b.to && std::chrono::abs(a.sent - b.sent) <= burst_max;
  }

  [[nodiscard]] bool was_lost_before(std::size_t index) const {
    const Timeline::Arrow& before = timeline_.arrows[index - 1];
    return before.is_lost && are_of_a_burst(before, timeline_.arrows[index]);
  }

  /// A packet that nobody saw arrive falls as steeply as its neighbours in the same burst.
  [[nodiscard]] double height_of_lost(std::size_t index) const {
    for (const std::size_t other : {index - 1, index + 1}) {
      if (other < timeline_.arrows.size() && timeline_.arrows[other].arrived &&
          are_of_a_burst(timeline_.arrows[other], timeline_.arrows[index])) {
        return arrived_y_[other] - sent_y_[other];
      }
    }
    return sent_height;
  }

  void draw_arrow(std::size_t index) {
    const Timeline::Arrow& arrow = timeline_.arrows[index];
    const double x1 = x_of(arrow.from);
    const double y1 = sent_y_[index];
    double x2 = x_of(arrow.to);
    double y2 = arrow.arrived ? arrived_y_[index] : y1 + height_of_lost(index);
    if (arrow.is_lost) {
      x2 = x1 + (x2 - x1) * lost_at;
      y2 = y1 + (y2 - y1) * lost_at;
    }
    const std::string_view name = class_of(arrow.style);
    const double length = std::hypot(x2 - x1, y2 - y1);
    const double ux = length > 0 ? (x2 - x1) / length : 1;
    const double uy = length > 0 ? (y2 - y1) / length : 0;
    lines_ += fmt::format(
        "<line class=\"{}{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", name,
        arrow.is_again ? " again" : "", x1, y1, x2 - ux * 6, y2 - uy * 6);
    if (arrow.is_lost) {
      lines_ += fmt::format(
          "<path stroke=\"#b00020\" stroke-width=\"3\" d=\"M{0:.1f} {1:.1f} l12 12 "
          "m0 -12 l-12 12\"/>\n",
          x2 - 6, y2 - 6);
    } else {
      lines_ +=
          fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f} L{:.1f} {:.1f} L{:.1f} {:.1f} Z\"/>\n",
                      name, x2, y2, x2 - ux * 11 - uy * 5, y2 - uy * 11 + ux * 5,
                      x2 - ux * 11 + uy * 5, y2 - uy * 11 - ux * 5);
    }
    draw_label(arrow, x1, y1, x2, y2);
  }

  /// Along the arrow, near its sender, so that arrows of both directions can cross.
  void draw_label(const Timeline::Arrow& arrow, double x1, double y1, double x2, double y2) {
    const bool to_right = x2 > x1;
    const double angle = std::atan2(to_right ? y2 - y1 : y1 - y2, to_right ? x2 - x1 : x1 - x2) *
                         180 / std::numbers::pi;
    const std::string why =
        arrow.why.empty() ? ""
                          : fmt::format(" <tspan class=\"why\">({})</tspan>", escaped(arrow.why));
    labels_ += fmt::format(
        "<g transform=\"translate({:.1f} {:.1f}) rotate({:.2f})\">"
        "<text class=\"label\" x=\"{}\" y=\"-5\" text-anchor=\"{}\">{}{}</text></g>\n",
        x1, y1, angle, to_right ? 14 : -14, to_right ? "start" : "end", escaped(arrow.label), why);
    if (arrow.fate.empty()) {
      return;
    }
    // Beyond the mark or the head.
    std::string remark(short_fate(arrow.fate));
    if (const auto rule = remark.find("rule "); arrow.is_lost && rule != std::string::npos) {
      remark = "lost, " + remark.substr(rule);
    }
    labels_ += fmt::format(
        "<text class=\"remark\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
        x2 + (to_right ? 12 : -12), y2 + 4, to_right ? "start" : "end", escaped(remark));
  }

  /// Beside the column: left of the first one, right of the others.
  void draw_note(std::size_t index) {
    const Timeline::Note& note = timeline_.notes[index];
    const bool left = note.column == 0;
    const int x = x_of(note.column);
    lines_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"{}\"/>\n", x, note_y_[index],
                          note.is_bad ? "#b00020" : "#444");
    labels_ +=
        fmt::format("<text class=\"label{}\" x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n",
                    note.is_bad ? " bad" : "", left ? x - 12 : x + 12, note_y_[index] + 4,
                    left ? "end" : "start", escaped(note.text));
  }

  void draw_legend(int height) {
    struct Row {
      std::string_view name;
      std::string_view text;
    };
    int x = 24;
    for (const Row& row : {Row{"request", "request"}, Row{"response", "response"},
                           Row{"refusal", "NAK"}, Row{"request again", "sent again"}}) {
      labels_ += fmt::format(
          "<line class=\"{0}\" x1=\"{1}\" y1=\"{2}\" x2=\"{3}\" y2=\"{2}\"/>"
          "<text x=\"{4}\" y=\"{5}\">{6}</text>\n",
          row.name, x, height - 24, x + 34, x + 42, height - 20, row.text);
      x += 150;
    }
  }

  const Timeline& timeline_;
  int left_width_ = margin_min;
  int right_width_ = margin_min;
  std::vector<std::string> rules_;
  int y_ = 0;
  int last_time_y_ = 0;
  int lost_until_y_ = 0;
  std::vector<int> sent_y_;
  std::vector<int> arrived_y_;
  std::vector<int> note_y_;
  // In the order of drawing.
  std::string back_;
  std::string lines_;
  std::string labels_;
};

}  // namespace

std::string render_svg(std::span<const Timeline> timelines) {
  int width = 0;
  int height = 0;
  std::string body;
  for (const Timeline& timeline : timelines) {
    const Drawing drawing = SvgLadder(timeline).draw();
    body += fmt::format("<g transform=\"translate({} 0)\">\n{}</g>\n", width, drawing.body);
    width += drawing.width;
    height = std::max(height, drawing.height);
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\">\n{2}<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n{3}"
      "</svg>\n",
      width, height, style_sheet, body);
}

std::string render_html(std::span<const Timeline> timelines) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">"
      "<title>{}</title></head>\n<body>\n{}</body>\n</html>\n",
      timelines.empty() ? "" : escaped(timelines.front().title), render_svg(timelines));
}

}  // namespace verbena::sim
