// The roles `agent` and `master`: two hosts, two devices, and a TCP connection on which they tell
// each other what no RDMA packet can before there is a connection.
#pragma once

struct wire_options {
  // NULL: the first one.
  const char* device;
  // ADDRESS:PORT, to listen at or to connect to.
  const char* address;
  // Of this side's iWARP device; NULL: as the control connection's.
  const char* own;
  // Path MTU in bytes; 0: the smaller one of both ports'.
  int mtu;
  // Part of the names of the operations to run; NULL: all.
  const char* only;
  // 4 or 6.
  int ip_version;
  // An agent ends after its first master.
  int once;
  // Reliable connections are made through rdma_cm, too, where a device has another way.
  int by_cm;
  // Where this side's rdma_cm listens; 0: any port.
  int cm_port;
};

int run_agent(const struct wire_options* options);
int run_master(const struct wire_options* options);
