#include "cli/lab_guest.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <tuple>

#include "cli/boot_watch.h"
#include "cli/child.h"
#include "cli/file_lock.h"
#include "cli/last_words.h"

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

/// With KVM that works a boot takes 2 s. One that doesn't may hang, with a core at 100 %.
constexpr seconds kvm_trial_limit{20};
constexpr int processors = 2;
constexpr int memory_mib = 1536;
constexpr int mac_prefix_last_max = 0xff;

/// A comma ends an option of QEMU's; two are one comma.
std::string quoted(const fs::path& path) {
  std::string text;
  for (const char letter : path.string()) {
    text += letter == ',' ? ",," : std::string(1, letter);
  }
  return text;
}

/// unix(7): the kernel's table of UNIX sockets marks those that listen with this flag.
bool is_listened_to(const fs::path& socket) {
  constexpr const char* accepts_connections = "00010000";
  std::ifstream table("/proc/net/unix");
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream columns(line);
    std::vector<std::string> words{std::istream_iterator<std::string>(columns), {}};
    constexpr std::size_t flags = 3;
    if (words.size() > flags && words[flags] == accepts_connections &&
        words.back() == socket.string()) {
      return true;
    }
  }
  return false;
}

std::string link_interface(const fs::path& link) {
  return fmt::format("stream,server={},addr.type=unix,addr.path={}",
                     is_listened_to(link) ? "off" : "on", quoted(link));
}

/// The way to the host by QEMU's own network, for what isn't about RDMA.
std::string user_interface(const GuestPlan& plan) {
  std::string words = "user";
  for (const auto& [outside, inside] : plan.forwards) {
    words += fmt::format(",hostfwd=tcp:127.0.0.1:{}-:{}", outside, inside);
  }
  return words;
}

void add_folder(std::vector<std::string>& words, const char* tag, const fs::path& folder,
                bool is_read_only) {
  words.insert(words.end(),
               {"-fsdev",
                fmt::format("local,id={},path={},security_model=none,multidevs=remap{}", tag,
                            quoted(folder), is_read_only ? ",readonly=on" : ""),
                "-device", fmt::format("virtio-9p-pci,fsdev={0},mount_tag={0}", tag)});
}

std::vector<std::string> qemu_words(const LabPlaces& places, const GuestPlan& plan,
                                    const fs::path& job) {
  const bool is_kvm = plan.accelerator == "kvm";
  std::vector<std::string> words{
      "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
      "-M", "q35,accel=" + plan.accelerator,
      // Nested hosts refuse one MSR of the host's model. Without KVM, fewer levels of page tables
      // are walked faster.
      "-cpu", is_kvm ? "host,-arch-capabilities" : "max,la57=off", "-smp",
      fmt::format("{}", processors), "-m", fmt::format("{}", memory_mib), "-kernel",
      (places.guest() / "vmlinux").string(), "-initrd", (places.guest() / "initrd").string(),
      "-append",
      "console=ttyS0 loglevel=7 panic=-1 mitigations=off random.trust_cpu=on tsc=reliable",
      "-serial", "file:" + quoted(job / "console"),
      // The command's output is QEMU's own standard output.
      "-chardev", "stdio,id=out,signal=on", "-device", "virtio-serial-pci", "-device",
      "virtconsole,chardev=out"};
  add_folder(words, "root", places.guest() / "root", true);
  add_folder(words, "tools", places.tools, true);
  add_folder(words, "job", job, false);
  if (!plan.share.empty()) {
    add_folder(words, "share", plan.share, false);
  }
  std::vector<std::string> interfaces;
  if (!plan.link.empty()) {
    interfaces.push_back(link_interface(plan.link));
  }
  interfaces.insert(interfaces.end(), plan.more_interfaces.begin(), plan.more_interfaces.end());
  interfaces.push_back(user_interface(plan));
  for (std::size_t i = 0; i < interfaces.size() && i <= mac_prefix_last_max; ++i) {
    words.insert(
        words.end(),
        {"-netdev", fmt::format("{},id=n{}", interfaces[i], i), "-device",
         fmt::format("virtio-net-pci,netdev=n{0},mac=52:54:00:12:34:{0:02x},romfile=", i)});
  }
  return words;
}

std::string last_lines(const fs::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    line.erase(std::remove(line.begin(), line.end(), '\r'), line.end());
    lines.push_back(line);
  }
  std::string text;
  for (std::size_t i = begin_of_last_words(lines); i < lines.size(); ++i) {
    text += "  | " + lines[i] + "\n";
  }
  return text;
}

std::optional<int> number_in(const fs::path& file) {
  int number = 0;
  return std::ifstream(file) >> number ? std::optional(number) : std::nullopt;
}

}  // namespace

struct Guest::State {
  // None if it can't be taken: who may not write to the lab's folder.
  std::optional<FileLock> use;
  ScratchDirectory job{"verbena-lab"};
  GuestPlan plan;
  steady_clock::time_point start = steady_clock::now();
  BootWatch watch{start};
  std::optional<Child> qemu;

  [[nodiscard]] bool is_up() const {
    std::error_code ignored;
    return fs::exists(job.path() / "started", ignored);
  }
  [[nodiscard]] bool is_stuck() {
    std::error_code failure;
    const auto bytes = fs::file_size(job.path() / "console", failure);
    return watch.is_stuck(steady_clock::now(), failure ? 0 : bytes);
  }
};

Guest::Guest(std::unique_ptr<State> state) : state_(std::move(state)) {}
Guest::Guest(Guest&&) noexcept = default;
Guest::~Guest() = default;

Result<Guest, std::string> Guest::boot(const LabPlaces& places, GuestPlan plan) {
  if (lab_state(places) == LabState::missing) {
    return std::unexpected(
        "there is no guest yet; `verbena lab build` makes it in a minute or two");
  }
  if (::access("/usr/bin/qemu-system-x86_64", X_OK) != 0) {
    return std::unexpected(
        "QEMU is missing: apt-get install --no-install-recommends "
        "qemu-system-x86");
  }
  auto state = std::make_unique<State>();
  auto use = FileLock::take(places.users(), FileLock::Kind::shared,
                            "verbena lab: the guest is being replaced; waiting");
  if (use) {
    state->use.emplace(std::move(*use));
  }
  state->plan = std::move(plan);
  const fs::path& job = state->job.path();
  std::ofstream(job / "command") << state->plan.command << '\n';
  if (!state->plan.share.empty()) {
    std::ofstream(job / "share") << '\n';
  }
  auto qemu = Child::start({.words = qemu_words(places, state->plan, job),
                            .output = state->plan.output,
                            .errors = job / "qemu"});
  if (!qemu) {
    return std::unexpected(qemu.error());
  }
  state->qemu.emplace(std::move(*qemu));
  return Guest(std::move(state));
}

GuestResult Guest::wait() {
  const fs::path job = state_->job.path();
  std::optional<steady_clock::time_point> started;
  const auto give_up = [&] {
    const auto now = steady_clock::now();
    if (!started && state_->is_up()) {
      started = now;
    }
    return started ? now - *started > state_->plan.limit : state_->is_stuck();
  };
  const ChildEnd end = state_->qemu->wait(boot_limit + state_->plan.limit, give_up);
  GuestResult result;
  result.took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - state_->start);
  if (const auto status = number_in(job / "status")) {
    result.end = GuestEnd::done;
    result.status = *status;
    return result;
  }
  const bool was_up = started || state_->is_up();
  result.end = !was_up ? GuestEnd::stalled : end.timed_out ? GuestEnd::timed_out : GuestEnd::died;
  result.status = end.status;
  result.console = last_lines(job / "qemu") + last_lines(job / "console");
  return result;
}

bool Guest::wait_until_up() {
  while (!state_->is_up()) {
    if (state_->is_stuck()) {
      return false;
    }
    pause_between_looks();
  }
  return true;
}

bool Guest::ends_well(milliseconds limit) {
  std::ignore = state_->qemu->wait(limit);
  return number_in(state_->job.path() / "status") == 0;
}

Result<GuestResult, std::string> run_in_guest(const LabPlaces& places, const GuestPlan& plan) {
  for (const bool is_last : {false, true}) {
    auto guest = Guest::boot(places, plan);
    if (!guest) {
      return std::unexpected(guest.error());
    }
    GuestResult result = guest->wait();
    if (is_last || result.end != GuestEnd::stalled) {
      return result;
    }
    fmt::print(stderr, "verbena lab: {}verbena lab: booting it once more\n",
               in_words(result, plan));
  }
  return std::unexpected("the guest doesn't boot");
}

std::string in_words(const GuestResult& result, const GuestPlan& plan) {
  std::string sentence;
  switch (result.end) {
    case GuestEnd::done:
      return {};
    case GuestEnd::timed_out:
      sentence = fmt::format("the command was still running after {} s", plan.limit.count());
      break;
    case GuestEnd::stalled:
      sentence = fmt::format(
          "the guest didn't come up: it ended, or said nothing for {} s, or needed more than {} s",
          boot_silence_limit.count(), boot_limit.count());
      break;
    case GuestEnd::died:
      sentence =
          fmt::format("the guest ended before its command did (QEMU's status {})", result.status);
      break;
  }
  return fmt::format("{}; what it and QEMU said last:\n{}", sentence, result.console);
}

std::string choose_accelerator(const LabPlaces& places) {
  if (::access("/dev/kvm", R_OK | W_OK) != 0) {
    return "tcg";
  }
  if (const auto remembered = remembered_accelerator(places)) {
    return *remembered;
  }
  GuestPlan plan;
  plan.command = "true";
  plan.accelerator = "kvm";
  plan.output = "/dev/null";
  auto guest = Guest::boot(places, plan);
  if (!guest) {
    // That was no trial: whoever boots the guest next is told why it can't be.
    return "tcg";
  }
  fmt::print(stderr, "verbena lab: trying KVM for {} s at most\n", kvm_trial_limit.count());
  const std::string found = guest->ends_well(kvm_trial_limit) ? "kvm" : "tcg";
  fmt::print(stderr, "verbena lab: KVM {}\n",
             found == "kvm" ? "works" : "is of no use here; instructions are emulated");
  remember_accelerator(places, found);
  return found;
}

}  // namespace verbena::cli
