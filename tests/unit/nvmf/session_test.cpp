// The target of examples/nvmf without RDMA: what it answers to the commands of hosts, and of those
// that send anything at all.
#include "examples/nvmf/session.h"

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <random>
#include <span>
#include <vector>

namespace nvmf::test {
namespace {

constexpr std::string_view host_nqn = "nqn.2026-11.example:host";
constexpr std::uint16_t entries = 32;

Settings small() { return {.storage_bytes = 1 << 20, .io_queues = 4}; }

Command command_of(std::uint8_t opcode) {
  Command command;
  command.opcode = opcode;
  command.flags = flags_sgl;
  return command;
}

Command admin(AdminOpcode opcode) { return command_of(static_cast<std::uint8_t>(opcode)); }

Command fabrics(FabricsType type) {
  Command command = command_of(fabrics_opcode);
  command.nsid = static_cast<std::uint32_t>(type);
  return command;
}

Command io(Opcode opcode, std::uint64_t block, std::uint32_t blocks) {
  Command command = command_of(static_cast<std::uint8_t>(opcode));
  command.nsid = the_namespace;
  command.cdw10 = static_cast<std::uint32_t>(block);
  command.cdw11 = static_cast<std::uint32_t>(block >> 32);
  command.cdw12 = blocks - 1;
  return command;
}

struct ConnectWishes {
  ConnectFields fields{.sq_size = entries - 1};
  std::uint16_t controller = controller_any;
  std::string subsystem = Settings{}.nqn;
  std::string host{host_nqn};
};

// A queue of a host, with one page for all of its commands.
class Queue {
 public:
  Queue(Subsystem& subsystem, std::uint16_t id)
      : session(subsystem, id, entries, {.address = "192.0.2.1", .service = "4420"}) {}

  Plan begin(const Command& command) { return session.begin(command, page); }
  Status status(const Command& command) { return begin(command).outcome.status; }

  Outcome connect(ConnectWishes wishes) {
    wishes.fields.queue_id =
        wishes.fields.queue_id == 0 ? session.queue_id() : wishes.fields.queue_id;
    Command command = fabrics(FabricsType::connect);
    set_connect_fields(command, wishes.fields);
    const Plan plan = begin(command);
    REQUIRE(plan.data == Plan::Data::from_host);
    REQUIRE(plan.memory.size() == connect_data_bytes);
    Page data(plan.memory);
    data.put(connect_controller_offset, wishes.controller);
    data.put_text(connect_subsystem_offset, nqn_field_bytes, wishes.subsystem, '\0');
    data.put_text(connect_host_offset, nqn_field_bytes, wishes.host, '\0');
    return session.finish(command, plan.memory);
  }

  std::uint16_t connect_and_enable(const ConnectWishes& wishes = {}) {
    const Outcome outcome = connect(wishes);
    REQUIRE(outcome.status == Status::success);
    enable();
    return static_cast<std::uint16_t>(outcome.result);
  }

  void enable() {
    Command set = fabrics(FabricsType::property_set);
    set.cdw11 = static_cast<std::uint32_t>(Property::configuration);
    set.cdw12 = cc_enable;
    REQUIRE(status(set) == Status::success);
  }

  Session session;
  std::array<std::uint8_t, page_bytes> page{};
};

TEST_CASE("a host connects, enables its controller, and finds what it wrote") {
  Subsystem subsystem(small());
  Queue admin_queue(subsystem, 0);
  const std::uint16_t id = admin_queue.connect_and_enable();
  Queue queue(subsystem, 1);
  REQUIRE(queue.connect({.controller = id}).result == id);

  const Plan write = queue.begin(io(Opcode::write, 8, 2));
  REQUIRE(write.data == Plan::Data::from_host);
  REQUIRE(write.memory.size() == 1024);
  std::ranges::fill(write.memory, std::uint8_t{0xab});
  REQUIRE(queue.session.finish(io(Opcode::write, 8, 2), write.memory).status == Status::success);
  const Plan read = queue.begin(io(Opcode::read, 9, 2));
  REQUIRE(read.data == Plan::Data::to_host);
  CHECK(read.memory[511] == 0xab);
  CHECK(read.memory[512] == 0);
  REQUIRE(queue.status(io(Opcode::write_zeroes, 9, 1)) == Status::success);
  CHECK(read.memory[0] == 0);
  CHECK(queue.status(io(Opcode::flush, 0, 1)) == Status::success);
  CHECK(subsystem.totals().written_bytes == 1024);
}

TEST_CASE("nothing goes before Connect, and only properties before the controller is enabled") {
  Subsystem subsystem(small());
  Queue queue(subsystem, 0);
  Command get = fabrics(FabricsType::property_get);
  get.cdw11 = static_cast<std::uint32_t>(Property::status);
  CHECK(queue.status(get) == Status::command_sequence_error);
  CHECK(queue.status(admin(AdminOpcode::keep_alive)) == Status::command_sequence_error);
  const Outcome connected = queue.connect({});
  REQUIRE(connected.status == Status::success);
  CHECK(queue.begin(get).outcome.result == 0);
  CHECK(queue.status(admin(AdminOpcode::identify)) == Status::command_sequence_error);
  CHECK(queue.status(fabrics(FabricsType::connect)) == Status::command_sequence_error);
  Queue early(subsystem, 1);
  CHECK(early.connect({.controller = static_cast<std::uint16_t>(connected.result)}).status ==
        Status::command_sequence_error);
}

TEST_CASE("of two Connects whose data are fetched at once, one is refused and nothing is left") {
  Subsystem subsystem(small());
  {
    Queue queue(subsystem, 0);
    const Command second = fabrics(FabricsType::connect);
    REQUIRE(queue.begin(second).data == Plan::Data::from_host);
    const Outcome first = queue.connect({});
    REQUIRE(first.status == Status::success);
    CHECK(queue.session.finish(second, std::span(queue.page).first(connect_data_bytes)).status ==
          Status::command_sequence_error);
    CHECK(subsystem.find_controller(static_cast<std::uint16_t>(first.result)) != nullptr);
  }
  // Each queue's controller is gone with it, so that there is room for as many as there may be.
  std::vector<std::unique_ptr<Queue>> queues;
  for (std::size_t i = 0; i < controllers_max; ++i) {
    queues.push_back(std::make_unique<Queue>(subsystem, std::uint16_t{0}));
    REQUIRE(queues.back()->connect({}).status == Status::success);
  }
}

TEST_CASE("blocks that don't exist are refused, however they are named") {
  Subsystem subsystem(small());
  Queue admin_queue(subsystem, 0);
  const std::uint16_t id = admin_queue.connect_and_enable();
  Queue queue(subsystem, 1);
  REQUIRE(queue.connect({.controller = id}).status == Status::success);
  constexpr std::uint64_t blocks = 2048;
  CHECK(queue.status(io(Opcode::read, blocks - 1, 1)) == Status::success);
  CHECK(queue.status(io(Opcode::read, blocks, 1)) == Status::lba_out_of_range);
  CHECK(queue.status(io(Opcode::write, blocks - 1, 2)) == Status::lba_out_of_range);
  CHECK(queue.status(io(Opcode::write_zeroes, 1, 65536)) == Status::lba_out_of_range);
  // Where a sum of 64 bits begins anew.
  CHECK(queue.status(io(Opcode::read, ~0ULL, 2)) == Status::lba_out_of_range);
  CHECK(queue.status(io(Opcode::read, 1ULL << 55, 1)) == Status::lba_out_of_range);
  Command other = io(Opcode::read, 0, 1);
  other.nsid = 2;
  CHECK(queue.status(other) == Status::invalid_namespace);
}

TEST_CASE("more than MDTS at once is refused") {
  Subsystem subsystem({.storage_bytes = 4 << 20});
  Queue admin_queue(subsystem, 0);
  const std::uint16_t id = admin_queue.connect_and_enable();
  Queue queue(subsystem, 1);
  REQUIRE(queue.connect({.controller = id}).status == Status::success);
  constexpr std::uint32_t most = transfer_bytes_max / block_bytes;
  CHECK(queue.status(io(Opcode::read, 0, most)) == Status::success);
  CHECK(queue.status(io(Opcode::read, 0, most + 1)) == Status::invalid_field);
}

TEST_CASE("Connect is refused with the field that is wrong") {
  Subsystem subsystem(small());
  const auto wrong = [&](const ConnectWishes& wishes) {
    Queue queue(subsystem, 0);
    const Outcome outcome = queue.connect(wishes);
    CHECK(outcome.status == Status::connect_invalid_parameters);
    return outcome.result;
  };
  constexpr std::uint64_t in_data = 1 << 16;
  CHECK(wrong({.fields = {.queue_id = 3, .sq_size = 31}}) == 42);
  CHECK(wrong({.fields = {.sq_size = 0}}) == 44);
  CHECK(wrong({.fields = {.sq_size = entries}}) == 44);
  CHECK(wrong({.controller = 1}) == (in_data | 16));
  CHECK(wrong({.subsystem = "nqn.2026-11.example:other"}) == (in_data | 256));
  CHECK(wrong({.host = ""}) == (in_data | 512));
  CHECK(wrong({.host = std::string(nqn_field_bytes, 'x')}) == (in_data | 512));
  Queue queue(subsystem, 0);
  CHECK(queue.connect({.fields = {.record_format = 1, .sq_size = 31}}).status ==
        Status::connect_incompatible_format);
}

TEST_CASE("an I/O queue belongs to its host's controller, once, and goes with the admin queue") {
  Subsystem subsystem(small());
  auto admin_queue = std::make_unique<Queue>(subsystem, 0);
  const std::uint16_t id = admin_queue->connect_and_enable();
  Queue queue(subsystem, 1);
  CHECK(queue.connect({.controller = 99}).result == ((1 << 16) | 16));
  CHECK(queue.connect({.controller = id, .host = "nqn.2026-11.example:thief"}).status ==
        Status::connect_invalid_parameters);
  CHECK(queue.connect({.controller = id}).status == Status::success);
  Queue again(subsystem, 1);
  CHECK(again.connect({.controller = id}).status == Status::connect_controller_busy);
  Queue beyond(subsystem, 5);
  CHECK(beyond.connect({.controller = id}).result == 42);
  CHECK(queue.session.is_alive());
  admin_queue.reset();
  CHECK_FALSE(queue.session.is_alive());
  CHECK(subsystem.find_controller(id) == nullptr);
}

TEST_CASE("a queue whose host is silent for too long is told of") {
  using std::chrono::seconds;
  const auto now = std::chrono::steady_clock::now();
  const auto later = now + std::chrono::hours(1);
  Subsystem subsystem(small());
  Queue queue(subsystem, 0);
  CHECK(queue.session.why_lost(now, seconds(1)) == nullptr);
  CHECK(queue.session.why_lost(later, seconds(1)) == std::string_view("no Connect came"));
  CHECK(queue.session.why_lost(later, std::chrono::hours(2)) == nullptr);

  SECTION("if it promised to keep alive") {
    REQUIRE(queue.connect({.fields = {.sq_size = 31, .keep_alive_timeout = 5000}}).status ==
            Status::success);
    CHECK(queue.session.why_lost(now, seconds(1)) == nullptr);
    CHECK(queue.session.why_lost(later, seconds(1)) ==
          std::string_view("the host didn't keep it alive"));
    CHECK(queue.session.why_lost(later, std::chrono::hours(2)) == nullptr);
  }
  SECTION("and only then") {
    REQUIRE(queue.connect({}).status == Status::success);
    CHECK(queue.session.why_lost(later, seconds(1)) == nullptr);
  }
}

TEST_CASE("there are only so many controllers, and asynchronous events that wait") {
  Subsystem subsystem(small());
  std::vector<std::unique_ptr<Queue>> queues;
  for (std::size_t i = 0; i < controllers_max; ++i) {
    queues.push_back(std::make_unique<Queue>(subsystem, 0));
    queues.back()->connect_and_enable();
  }
  Queue late(subsystem, 0);
  CHECK(late.connect({}).status == Status::connect_controller_busy);
  for (std::size_t i = 0; i < held_events_max; ++i) {
    CHECK(queues[0]->begin(admin(AdminOpcode::async_event_request)).is_held);
  }
  CHECK(queues[0]->status(admin(AdminOpcode::async_event_request)) ==
        Status::async_event_limit_exceeded);
  queues.pop_back();
  CHECK(late.connect({}).status == Status::success);
}

TEST_CASE("a discovery controller tells where the subsystem is, and knows nothing else") {
  Subsystem subsystem(small());
  Queue queue(subsystem, 0);
  queue.connect_and_enable({.subsystem = std::string(discovery_nqn)});
  Command log = admin(AdminOpcode::get_log_page);
  const auto ask = [&](std::uint32_t page, std::uint64_t bytes, std::uint64_t offset) {
    log.cdw10 = page | static_cast<std::uint32_t>((bytes / 4 - 1) << 16);
    log.cdw11 = static_cast<std::uint32_t>((bytes / 4 - 1) >> 16);
    log.cdw12 = static_cast<std::uint32_t>(offset);
    return queue.begin(log);
  };
  const Plan plan = ask(0x70, 1024, 1024);
  REQUIRE(plan.memory.size() == 1024);
  const Page record(plan.memory);
  CHECK(record.get<std::uint8_t>(record_transport_offset) == transport_rdma);
  CHECK(record.get_text(record_nqn_offset, nqn_field_bytes) == Settings{}.nqn);
  CHECK(record.get_text(record_address_offset, record_address_bytes) == "192.0.2.1");
  CHECK(record.get_text(record_service_offset, record_service_bytes) == "4420");
  // Behind the end of the log there are zeros, behind the end of a page nothing.
  CHECK(ask(0x70, 4096, 2048).memory[0] == 0);
  CHECK(ask(0x70, 8192, 0).outcome.status == Status::invalid_field);
  CHECK(ask(0x70, 1ULL << 33, 0).outcome.status == Status::invalid_field);
  CHECK(ask(0x70, 4, 4100).outcome.status == Status::invalid_field);
  CHECK(ask(0x02, 512, 0).outcome.status == Status::invalid_log_page);
  Command identify = admin(AdminOpcode::identify);
  identify.nsid = the_namespace;
  CHECK(queue.status(identify) == Status::invalid_field);
}

TEST_CASE("completions move the queue's head around, unless the host doesn't want to know") {
  Subsystem subsystem(small());
  Queue queue(subsystem, 0);
  REQUIRE(queue.connect({.fields = {.sq_size = 2}}).status == Status::success);
  std::vector<int> heads;
  for (int i = 0; i < 4; ++i) {
    heads.push_back(queue.session.complete({}, {}).sq_head);
  }
  CHECK(heads == std::vector<int>{1, 2, 0, 1});
  const Completion failed =
      queue.session.complete(admin(AdminOpcode::identify), {.status = Status::lba_out_of_range});
  CHECK(failed.status == (0x4080 << 1));
  CHECK(status_of(failed) == Status::lba_out_of_range);
  Queue other(subsystem, 0);
  REQUIRE(other.connect({.fields = {.sq_size = 2, .flow_control_disabled = true}}).status ==
          Status::success);
  CHECK(other.session.complete({}, {}).sq_head == 0xffff);
}

TEST_CASE("descriptors say what was put into them") {
  const Sgl keyed{.kind = Sgl::Kind::keyed,
                  .address = 0x1122334455667788,
                  .length = 0xabcdef,
                  .key = 0x99aabbcc,
                  .invalidate = true};
  const Sgl parsed = parse_sgl(sgl_bytes(keyed));
  CHECK(parsed.kind == keyed.kind);
  CHECK(parsed.address == keyed.address);
  CHECK(parsed.length == keyed.length);
  CHECK(parsed.key == keyed.key);
  CHECK(parsed.invalidate);
  // As they lie in a capsule of Linux' initiator.
  CHECK(sgl_bytes(keyed) == SglBytes{0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xef, 0xcd,
                                     0xab, 0xcc, 0xbb, 0xaa, 0x99, 0x4f});
  CHECK(parse_sgl(sgl_bytes({.kind = Sgl::Kind::in_capsule, .address = 4, .length = 512})).length ==
        512);
  SglBytes list{};
  list[15] = 0x30;  // a segment: more descriptors elsewhere
  CHECK(parse_sgl(list).kind == Sgl::Kind::unknown);
}

TEST_CASE("whatever comes, data stay within the namespace and the page") {
  std::mt19937_64 random(1);
  Subsystem subsystem(small());
  const auto storage = subsystem.storage().memory();
  auto admin_queue = std::make_unique<Queue>(subsystem, 0);
  const std::uint16_t id = admin_queue->connect_and_enable();
  auto queue = std::make_unique<Queue>(subsystem, 1);
  REQUIRE(queue->connect({.controller = id}).status == Status::success);
  constexpr std::array<std::uint8_t, 12> opcodes{0x00, 0x01, 0x02, 0x06, 0x08, 0x09,
                                                 0x0a, 0x0c, 0x18, 0x7f, 0x42, 0xff};
  std::uint64_t with_data = 0;
  for (int i = 0; i < 50'000; ++i) {
    if (i % 100 == 0) {
      admin_queue->enable();  // One of the commands may have disabled it.
    }
    std::array<std::uint64_t, 8> words{};
    // An eighth of the bits is 1, so that small numbers come, too.
    for (std::uint64_t& word : words) {
      word = random();
      word &= random();
      word &= random();
    }
    auto command = std::bit_cast<Command>(words);
    command.opcode = opcodes[random() % opcodes.size()];
    command.nsid = static_cast<std::uint32_t>(random() % 6);
    if (random() % 2 == 0) {
      command.cdw10 %= 4096;
      command.cdw11 = 0;
    }
    command.flags = flags_sgl;
    Queue& chosen = random() % 2 == 0 ? *queue : *admin_queue;
    const Plan plan = chosen.begin(command);
    const auto* first = plan.memory.data();
    const bool is_in_page = first == chosen.page.data() && plan.memory.size() <= page_bytes;
    const bool is_in_storage = first >= storage.data() && plan.memory.size() <= storage.size() &&
                               first <= storage.data() + storage.size() - plan.memory.size();
    if (plan.data != Plan::Data::none) {
      REQUIRE((is_in_page || is_in_storage));
      ++with_data;
    }
    if (plan.data == Plan::Data::from_host) {
      (void)chosen.session.finish(command, plan.memory);
    }
    (void)chosen.session.complete(command, plan.outcome);
  }
  CHECK(with_data > 300);
}

}  // namespace
}  // namespace nvmf::test
