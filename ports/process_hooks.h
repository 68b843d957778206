// What must happen to engines when their process forks or exits.
#pragma once

namespace verbena::ports {

class ProcessHook {
 public:
  virtual ~ProcessHook() = default;
  /// Before fork(), in the parent: brings the object to rest.
  virtual void before_fork() = 0;
  virtual void after_fork_in_parent() = 0;
  /// In the child no other thread exists, and shared memory is not mapped.
  virtual void after_fork_in_child() = 0;
  /// In exit(). Other threads may still run; the process ends soon.
  virtual void at_exit() = 0;
};

/// From now on `hook` is called. Never before this file's handlers are installed, so the first call
/// installs them.
void add_process_hook(ProcessHook& hook);
/// When this returns, `hook` is not called any more. No effect in a child of fork().
void remove_process_hook(ProcessHook& hook);

}  // namespace verbena::ports
