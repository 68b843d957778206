// Where a datagram goes.
#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

namespace verbena {

/// The way to a peer. A transport hands it to the sink that builds the frame (DatagramSink), which
/// alone knows what is in it. Counted, because a consumer may destroy its address handle while
/// requests that name it still wait; the count is not atomic, as nothing of a NIC is.
class AddressHandle
    : public boost::intrusive_ref_counter<AddressHandle, boost::thread_unsafe_counter> {
 public:
  AddressHandle() = default;
  AddressHandle(const AddressHandle&) = delete;
  AddressHandle& operator=(const AddressHandle&) = delete;
  virtual ~AddressHandle() = default;
};

using AddressHandlePtr = boost::intrusive_ptr<const AddressHandle>;

}  // namespace verbena
