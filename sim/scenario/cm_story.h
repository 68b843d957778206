// The part of a scenario's story that hosts tell each other through their connection managers:
// `HOST listen`, `connect`, `accept`, `reject`, `disconnect`. Internal to sim/scenario/.
//
// The application at each end does the usual thing: who listens accepts, unless the connection says
// that the story does it; who gets a reply is ready; whose peer disconnects agrees.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cm_host.h"
#include "sim/scenario/stage.h"

namespace verbena::sim {

class CmStory final : public CmApplication {
 public:
  explicit CmStory(Stage& stage);

  /// Whether that is a verb of a host with a connection manager.
  [[nodiscard]] static bool is_verb(std::string_view verb);
  void run_step(Line& line, std::size_t host, const Word& verb);

  /// What a host heard, "rejected invalid_service_id", and where in the trace it stands.
  struct Heard {
    std::string what;
    std::size_t event = 0;
  };
  [[nodiscard]] const std::vector<std::vector<Heard>>& heard() const { return heard_; }
  /// Whether an event of that name has come to the host. A word that names none is a ScenarioError.
  [[nodiscard]] bool has_heard(std::size_t host, const Word& name) const;

  void on_cm_event(Node& node, const ib::cm::Event& event) override;

 private:
  /// One end of a connection: its place in the agent, and what the peer asked for.
  struct CmEnd {
    ib::cm::CommId id{};
    std::optional<ib::cm::Req> req;
  };
  struct Found {
    std::size_t connection = 0;
    std::size_t side = 0;
  };

  [[nodiscard]] Found connection_of(std::size_t host, const std::optional<Word>& via, Place place);
  [[nodiscard]] ib::cm::Agent& agent_of(const Found& at) const;
  [[nodiscard]] CmEnd& end_of(const Found& at) { return ends_[at.connection][at.side]; }
  [[nodiscard]] ib::cm::Req request_of(const Found& at) const;
  void listen(const Found& at) const;
  void connect(const Found& at);
  /// False if there is no request to answer, or not any more.
  [[nodiscard]] bool accept(const Found& at);
  void act_on(const Found& at, const ib::cm::Event& event);
  void on_reply(const Found& at, const ib::cm::Rep& rep);
  void fail_qp(const Found& at);

  Stage& stage_;
  /// By host; null at scripted peers, and everywhere if no connection is made this way.
  std::vector<std::unique_ptr<CmHost>> hosts_;
  /// By connection, both ends.
  std::vector<std::array<CmEnd, 2>> ends_;
  std::vector<std::vector<Heard>> heard_;
};

}  // namespace verbena::sim
