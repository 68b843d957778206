"""Runs rdma-core's suite for pyverbs as its own run_tests.py does, but for one thing:

    run_pyverbs.py SUITE ADDRESS [ARGUMENT...]

The suite looks in /sys/class/infiniband for a device's network interface, and tests rdma_cm with
that interface's address. Our devices have no entry there, which only the kernel could make: so the
suite is told the address."""

import pathlib
import sys
import unittest

suite = pathlib.Path(sys.argv[1]).resolve()
address = sys.argv[2]
sys.argv[1:3] = []
# As for a script in that directory, and for the package that it is.
sys.path[:1] = [str(suite), str(suite.parent)]

import tests
from args_parser import parser
from tests import base

MAC = "02:00:00:00:00:01"


def use_address(self, device, port, gid_index):
    self.args.append([device, port, gid_index, address, MAC])


base.RDMATestCase._get_ip_mac = use_address
parser.parse_args()
unittest.main(module=tests)
