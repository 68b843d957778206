// Tells a scenario's story: runs its steps one after the other, waiting where they say so.
// Internal to sim/scenario/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "proto/work.h"
#include "sim/event_queue.h"
#include "sim/node.h"
#include "sim/scenario/cm_story.h"
#include "sim/scenario/stage.h"
#include "sim/scenario/story_listener.h"

namespace verbena::sim {

class Story final : public Application, public EventHandler {
 public:
  explicit Story(Stage& stage);

  /// Before the story is told. Must live as long as it is told.
  void set_listener(StoryListener& listener) { listener_ = &listener; }

  /// Runs until the story is told and nothing happens any more, or until the scenario's limit.
  /// What is wrong with a step is a ScenarioError.
  void tell();

  /// Whether all steps were done in all rounds; if not, which one waits.
  [[nodiscard]] bool is_told() const { return rounds_left_ == 0; }
  [[nodiscard]] const Line& waiting_step() const { return stage_.scenario().steps[next_]; }

  /// Something that a host was told, and where in the trace it stands.
  template <class What>
  struct Told {
    What what;
    std::size_t event = 0;
  };
  /// What completed and which events came, by host.
  [[nodiscard]] const std::vector<std::vector<Told<Completion>>>& completions() const {
    return completions_;
  }
  [[nodiscard]] const std::vector<std::vector<Told<nic::AsyncEventType>>>& events() const {
    return events_;
  }

  /// What hosts tell each other through their connection managers.
  [[nodiscard]] const CmStory& cm() const { return cm_; }

  void on_completion(Node& node, const Completion& completion) override;
  void on_async_event(Node& node, const nic::AsyncEvent& event) override;
  void on_event(Time now, std::uint64_t token) override;

 private:
  /// A work request step: posted for each ID of a range.
  struct Post {
    std::size_t host = 0;
    /// nullptr: a receive request for a shared queue.
    Connection* connection = nullptr;
    bool is_recv = false;
    /// Of a receive request: the queue that it is for. Of others: the one that they name (XRC).
    nic::Srq* srq = nullptr;
    /// That is bound or invalidated.
    nic::Mw* window = nullptr;
    SendWr wr;
    std::vector<Sge> sges;
    /// Evaluated when it is posted, because keys may change.
    std::optional<Word> rkey;
    std::optional<Location> remote;
    /// Of datagrams; the connection's, if none is told.
    std::optional<Qkey> qkey;
    /// Why the post should be refused.
    std::optional<Word> refused;
    std::uint64_t next_id = 0;
    std::uint64_t last_id = 0;
  };

  [[nodiscard]] bool run_step(Line line);
  [[nodiscard]] bool run_wait(Line& line);
  void tell_of_other(const Line& line);
  void run_host_step(Line& line, std::size_t host, const Word& verb);
  [[nodiscard]] bool is_for_cm(Line line, std::size_t host, const Word& verb);
  void modify(Line& line, std::size_t host);
  void fill(Line& line);
  void destroy(Line& line, Node& node);
  void set_limit(Line& line, Node& node);
  void set_rate(Line& line, std::size_t host);
  void change_path(Line& line, std::size_t host);
  void run_peer_step(Line& line, std::size_t host, const Word& verb);
  void send_packet(Line& line, std::size_t host);
  void send_transport(std::size_t host, std::size_t to, ByteView transport, RawPeer::Icrc icrc);

  // Work requests (story_post.cpp).
  [[nodiscard]] static const WrOpcode* opcode_of_verb(std::string_view verb);
  [[nodiscard]] Post read_post(Line& line, std::size_t host, const Word& verb);
  void read_operands(Line& line, Post& post);
  void read_window_work(Line& line, Post& post);
  void read_flush(Line& line, Post& post);
  void read_sges(const Word& word, std::uint64_t length, bool has_length, Post& post);
  [[nodiscard]] bool post_more();
  void tell_of(const Post& post);
  [[nodiscard]] Result<void, PostError> post_one(Post& post, Node& node);
  void address(Post& post, const End& end) const;
  void check_refusal(const Post& post, PostError error) const;

  void next_step();
  void note_states();
  [[nodiscard]] std::size_t last_event() const;
  [[nodiscard]] std::size_t index_of(const Node& node) const;

  Stage& stage_;
  StoryListener* listener_ = nullptr;
  CmStory cm_;
  std::vector<Line> steps_;
  std::size_t next_ = 0;
  std::uint32_t rounds_left_ = 0;
  std::optional<Post> post_;
  std::optional<Time> wake_;
  std::vector<std::vector<Told<Completion>>> completions_;
  /// Where this round's completions begin, by host.
  std::vector<std::size_t> round_begin_;
  std::vector<std::vector<Told<nic::AsyncEventType>>> events_;
  std::vector<nic::QpState> states_;
};

}  // namespace verbena::sim
