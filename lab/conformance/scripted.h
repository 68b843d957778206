// The role `scripted`: a device with one queue pair whose peer is a script. Whoever connects by TCP
// says, line by line, what the device is given, and is told what comes of it; the packets reach the
// device by another way.
//
//   memory BYTES                              ok
//   region OFFSET BYTES ACCESS FILL           region LKEY RKEY
//   qp TYPE SEND_WR RECV_WR                   qp QPN
//   connect QPN GID MTU RQ_PSN SQ_PSN ACCESS READS RNR_TIMER TIMEOUT RETRIES RNR_RETRIES QKEY
//                                             ok
//   recv ID COUNT [ADDRESS LENGTH LKEY]...    ok
//   send ID OPCODE FLAGS IMM ADDRESS RKEY COMPARE SWAP QPN QKEY COUNT [ADDRESS LENGTH LKEY]...
//                                             ok
//   finish                                    state N, bytes REGION OFFSET HEX ..., finished
//
// Numbers are decimal but for keys, addresses, flags and QPNs, which are hexadecimal; enumerations
// are those of the verbs. What can't be done is answered by "failed WHAT ERRNO". Between the
// answers there is "wc ID STATUS OPCODE BYTES FLAGS IMM" for each completion and "event TYPE" for
// each asynchronous event. After `finish` all is gone, and another script may begin.
#pragma once

#include "lab/conformance/wire.h"

int run_scripted(const struct wire_options* options);
