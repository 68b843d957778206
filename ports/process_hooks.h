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
  /// In exit(), those that were added last first. Other threads may still run; the process ends
  /// soon. The thread that exits may hold any lock: it may be in a signal handler.
  virtual void at_exit() = 0;
};

/// Installs the handlers for fork() and exit(), once. Who opens engines under a lock of his own,
/// and locks it around fork(), calls this before pthread_atfork(): the handlers installed last run
/// first before a fork, so that his lock is taken before those of the engines, as in opening one.
void install_process_handlers();

/// From now on `hook` is called; installs the handlers.
void add_process_hook(ProcessHook& hook);
/// When this returns, `hook` is not called any more. No effect in a child of fork().
void remove_process_hook(ProcessHook& hook);

}  // namespace verbena::ports
