// What a device tells of itself, through current and older versions of the ABI.

#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "tests/unit/verbs/fixture.h"
#include "verbs/abi_layout.h"
#include "verbs/real_verbs.h"

using namespace verbena::test;

// Exported, but in no public header.
extern "C" int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer,
                                   std::size_t size);
extern "C" int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index,
                                  unsigned* type);

TEST_CASE("the device list ends with a null pointer and names the device everywhere alike") {
  use_private_device();
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  REQUIRE(count == 1);
  REQUIRE(list[1] == nullptr);
  CHECK(std::string(ibv_get_device_name(list[0])) == "verbena0");
  CHECK(std::string(list[0]->dev_name) == "uverbs0");
  CHECK(std::string(list[0]->ibdev_path) == "/sys/class/infiniband/verbena0");
  CHECK(list[0]->node_type == IBV_NODE_CA);
  CHECK(list[0]->transport_type == IBV_TRANSPORT_IB);
  CHECK(ibv_get_device_guid(list[0]) != 0);
  CHECK(ibv_get_device_index(list[0]) == 0);
  ibv_free_device_list(list);
}

TEST_CASE("mlx5dv_is_supported() and the like find no provider behind our device") {
  use_private_device();
  ibv_device** list = ibv_get_device_list(nullptr);
  CHECK(reinterpret_cast<verbena::verbs::VerbsDevice*>(list[0])->ops ==
        &verbena::verbs::our_device_mark);
  ibv_free_device_list(list);
}

TEST_CASE("a context has descriptors of its own and looks extended") {
  const ContextPtr context = open_context();
  CHECK(context->cmd_fd >= 0);
  CHECK(context->async_fd >= 0);
  CHECK(context->num_comp_vectors >= 1);
  CHECK(context->abi_compat == __VERBS_ABI_IS_EXTENDED);
  CHECK(verbs_get_ctx(context.get())->sz == sizeof(verbs_context));
}

TEST_CASE("device attributes are what programs and pyverbs expect") {
  const ContextPtr context = open_context();
  ibv_device_attr attr{};
  REQUIRE(ibv_query_device(context.get(), &attr) == 0);
  CHECK(attr.node_guid == ibv_get_device_guid(context->device));
  CHECK(attr.sys_image_guid != 0);
  CHECK(attr.vendor_id != 0);
  CHECK((attr.page_size_cap & 4096) != 0);
  CHECK(attr.max_sge == 32);
  CHECK(attr.max_qp > 0);
  CHECK(attr.max_cqe > 0);
  CHECK(attr.max_pkeys == 1);
  CHECK(attr.phys_port_cnt == 1);
  CHECK(attr.max_srq > 0);
  CHECK(attr.max_mw > 0);
  CHECK(attr.atomic_cap == IBV_ATOMIC_HCA);
  CHECK((attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0);
}

TEST_CASE("extended device attributes are written as far as the program knows them") {
  const ContextPtr context = open_context();
  ibv_device_attr_ex attr;
  std::memset(&attr, 0xA5, sizeof attr);
  constexpr std::size_t known = offsetof(ibv_device_attr_ex, odp_caps);
  REQUIRE(verbs_get_ctx(context.get())->query_device_ex(context.get(), nullptr, &attr, known) == 0);
  CHECK(attr.orig_attr.phys_port_cnt == 1);
  CHECK(attr.phys_port_cnt_ex == 0xA5A5'A5A5);
  REQUIRE(ibv_query_device_ex(context.get(), nullptr, &attr) == 0);
  CHECK(attr.phys_port_cnt_ex == 1);
}

TEST_CASE("the port is an active Ethernet port that takes messages of 2^31 bytes") {
  const ContextPtr context = open_context();
  ibv_port_attr attr{};
  REQUIRE(___ibv_query_port(context.get(), 1, &attr) == 0);
  CHECK(attr.state == IBV_PORT_ACTIVE);
  CHECK(attr.phys_state == 5);
  CHECK(attr.link_layer == IBV_LINK_LAYER_ETHERNET);
  CHECK(attr.max_msg_sz == 1U << 31);
  CHECK(attr.active_mtu == IBV_MTU_4096);
  CHECK(attr.gid_tbl_len == 16);
  CHECK(___ibv_query_port(context.get(), 0, &attr) == EINVAL);
  CHECK(___ibv_query_port(context.get(), 2, &attr) == EINVAL);
}

TEST_CASE("a program of before 2020 gets port attributes without what it has no room for") {
  const ContextPtr context = open_context();
  ibv_port_attr attr;
  std::memset(&attr, 0xA5, sizeof attr);
  REQUIRE(ibv_query_port(context.get(), 1, reinterpret_cast<_compat_ibv_port_attr*>(&attr)) == 0);
  CHECK(attr.state == IBV_PORT_ACTIVE);
  CHECK(attr.port_cap_flags2 == 0xA5A5);
}

TEST_CASE("GID index 0 is the loopback address as RoCE v2, in all four queries") {
  const ContextPtr context = open_context();
  constexpr std::array<std::uint8_t, 16> loopback = {0, 0, 0,    0,    0,   0, 0, 0,
                                                     0, 0, 0xFF, 0xFF, 127, 0, 0, 1};
  ibv_gid gid{};
  REQUIRE(ibv_query_gid(context.get(), 1, 0, &gid) == 0);
  CHECK(std::memcmp(gid.raw, loopback.data(), loopback.size()) == 0);

  ibv_gid_entry entry{};
  REQUIRE(ibv_query_gid_ex(context.get(), 1, 0, &entry, 0) == 0);
  CHECK(std::memcmp(entry.gid.raw, loopback.data(), loopback.size()) == 0);
  CHECK(entry.gid_type == IBV_GID_TYPE_ROCE_V2);
  CHECK(entry.port_num == 1);

  ibv_gid_entry table[5]{};
  REQUIRE(ibv_query_gid_table(context.get(), table, 5, 0) == 4);
  CHECK(table[0].gid_type == IBV_GID_TYPE_ROCE_V2);
  CHECK(table[3].gid_type == IBV_GID_TYPE_ROCE_V1);

  unsigned type = 99;
  REQUIRE(ibv_query_gid_type(context.get(), 1, 0, &type) == 0);
  CHECK(type == 1);
}

TEST_CASE("GIDs and partition keys outside their tables are refused") {
  const ContextPtr context = open_context();
  ibv_gid gid{};
  ibv_gid_entry entry{};
  __be16 pkey = 0;
  CHECK(ibv_query_gid(context.get(), 1, 16, &gid) == -1);
  CHECK(ibv_query_gid(context.get(), 1, -1, &gid) == -1);
  CHECK(ibv_query_gid(context.get(), 2, 0, &gid) == -1);
  CHECK(ibv_query_gid_ex(context.get(), 1, 16, &entry, 0) == EINVAL);
  CHECK(ibv_query_gid_ex(context.get(), 1, 0, &entry, 1) == EOPNOTSUPP);
  CHECK(ibv_query_gid_table(context.get(), &entry, 0, 0) == -EINVAL);
  CHECK(ibv_query_pkey(context.get(), 1, 1, &pkey) == -1);
  REQUIRE(ibv_query_pkey(context.get(), 1, 0, &pkey) == 0);
  CHECK(pkey == 0xFFFF);
  CHECK(ibv_get_pkey_index(context.get(), 1, 0xFFFF) == 0);
  CHECK(ibv_get_pkey_index(context.get(), 1, 0x1234) == -1);
}

TEST_CASE("the rows of the GID table behind the addresses of the device are empty") {
  const ContextPtr context = open_context();
  ibv_gid gid;
  std::memset(&gid, 0xA5, sizeof gid);
  REQUIRE(ibv_query_gid(context.get(), 1, 15, &gid) == 0);
  CHECK(gid.global.subnet_prefix == 0);
  CHECK(gid.global.interface_id == 0);
  ibv_gid_entry entry{};
  CHECK(ibv_query_gid_ex(context.get(), 1, 15, &entry, 0) == ENODATA);
  unsigned type = 99;
  REQUIRE(ibv_query_gid_type(context.get(), 1, 15, &type) == 0);
  CHECK(type == 0);
}

TEST_CASE("an entry of the GID table is as long as the program's struct") {
  const ContextPtr context = open_context();
  constexpr std::size_t longer = sizeof(ibv_gid_entry) + 8;
  std::array<std::uint8_t, 4 * longer> bytes;
  bytes.fill(0xA5);
  REQUIRE(_ibv_query_gid_table(context.get(), reinterpret_cast<ibv_gid_entry*>(bytes.data()), 4, 0,
                               longer) == 4);
  CHECK(bytes[longer - 1] == 0);
}

TEST_CASE("files of the device's sysfs directory are read through the library") {
  const ContextPtr context = open_context();
  std::array<char, 64> text{};
  const char* directory = context->device->ibdev_path;
  const auto read = [&](const char* file) {
    const int length = ibv_read_sysfs_file(directory, file, text.data(), text.size());
    return length < 0 ? std::string("absent") : std::string(text.data());
  };
  CHECK(read("node_type") == "1: CA");
  CHECK(read("ports/1/gids/0") == "0000:0000:0000:0000:0000:ffff:7f00:0001");
  CHECK(read("ports/1/gid_attrs/types/0") == "RoCE v2");
  CHECK(read("ports/1/gids/15") == "0000:0000:0000:0000:0000:0000:0000:0000");
  CHECK(read("ports/1/gids/16") == "absent");
  CHECK(read("ports/1/gid_attrs/types/15") == "absent");
  CHECK(read("no_such_file") == "absent");
  CHECK(errno == ENOENT);
  // Other files come from the file system, without their line feed.
  CHECK(ibv_read_sysfs_file("/proc/self", "no_such_file", text.data(), text.size()) == -1);
  CHECK(ibv_read_sysfs_file("/proc/sys/kernel", "ostype", text.data(), text.size()) == 5);
  CHECK(std::string(text.data()) == "Linux");
}

TEST_CASE("names of enumerators are rdma-core's, and unknown values have one, too") {
  CHECK(std::string(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR)) == "transport retry counter exceeded");
  CHECK(std::string(ibv_wc_status_str(std::bit_cast<ibv_wc_status>(99))) == "unknown");
  CHECK(std::string(ibv_event_type_str(IBV_EVENT_QP_ACCESS_ERR)) ==
        "local access violation work queue error");
  CHECK(std::string(ibv_port_state_str(IBV_PORT_ACTIVE)) == "active");
  CHECK(std::string(ibv_node_type_str(IBV_NODE_CA)) == "InfiniBand channel adapter");
  CHECK(std::string(ibv_node_type_str(IBV_NODE_UNKNOWN)) == "unknown");
}

TEST_CASE("static rates convert to numbers and back") {
  CHECK(ibv_rate_to_mult(IBV_RATE_10_GBPS) == 4);
  CHECK(ibv_rate_to_mult(IBV_RATE_100_GBPS) == -1);
  CHECK(ibv_rate_to_mbps(IBV_RATE_100_GBPS) == 103125);
  CHECK(ibv_rate_to_mbps(IBV_RATE_MAX) == -1);
  CHECK(mult_to_ibv_rate(4) == IBV_RATE_10_GBPS);
  CHECK(mult_to_ibv_rate(0) == IBV_RATE_MAX);
  CHECK(mbps_to_ibv_rate(103125) == IBV_RATE_100_GBPS);
}

TEST_CASE("what the device does not offer answers EOPNOTSUPP") {
  const ContextPtr context = open_context();
  const PdPtr pd(ibv_alloc_pd(context.get()));
  CHECK(ibv_reg_dmabuf_mr(pd.get(), 0, 4096, 0, 0, 0) == nullptr);
  CHECK(errno == EOPNOTSUPP);
}

TEST_CASE("queue pairs of types that the device doesn't have are refused with EOPNOTSUPP") {
  const Side side;
  ibv_qp_init_attr init = side.init_attr();
  init.qp_type = IBV_QPT_RAW_PACKET;
  CHECK(ibv_create_qp(side.pd.get(), &init) == nullptr);
  CHECK(errno == EOPNOTSUPP);
}
