#!/bin/bash
# Makes the guest of the lab in an empty folder: build_guest.sh FOLDER (`verbena lab build` runs it).
#
# The guest is Debian 12: a folder that is its root file system, Debian's kernel, and two modules,
# rdma_rxe from Debian's kernel and siw built from Debian's kernel source, because Debian's
# configuration leaves it out. Nothing is installed here: packages are only unpacked, and apt keeps
# its lists and downloads inside FOLDER.
set -euo pipefail
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive

folder=$(realpath "${1:?the folder to build in}")
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$folder/root
suite=bookworm

# What runs in the guest. The first two lines are the judges: rdma-core and the programs on it.
packages=rdma-core,ibverbs-utils,ibverbs-providers,rdmacm-utils,perftest,qperf,python3-pyverbs
packages+=,infiniband-diags,iproute2,iputils-ping,ethtool,tcpdump,nvme-cli
packages+=,kmod,procps,strace,busybox-static

steps=6
step=0
say() {
  step=$((step + 1))
  printf 'verbena lab: [%d/%d] %s\n' "$step" "$steps" "$*"
}

fail() {
  printf 'verbena lab: %s\n' "$*" >&2
  exit 1
}

# The kernel is the one whose headers are here: siw is built against them.
release=$(find /usr/src -maxdepth 1 -name 'linux-headers-6.1.*-amd64' -printf '%f\n' |
  sed 's/^linux-headers-//' | sort -V | tail -n 1)
[[ -n $release ]] || fail "no headers of a Debian 12 kernel in /usr/src; install linux-headers-amd64"

# apt with state of its own: needs no root, and doesn't rely on lists that may be old or missing.
apt() {
  apt-get -qq -o Dir::State="$folder/apt/state" -o Dir::Cache="$folder/apt/cache" \
    -o Dir::State::status=/var/lib/dpkg/status -o APT::Sandbox::User= -o Debug::NoLocking=1 "$@"
}

say "asking the package archive"
mkdir -p "$folder"/apt/{state/lists/partial,cache/archives/partial} "$folder/source"
apt update || fail "apt-get update failed, see above"

say "downloading the kernel $release and its source (about 200 MB)"
(cd "$folder/apt" && apt download "linux-image-$release" linux-source-6.1) ||
  fail "this archive has no linux-image-$release; apt-get install linux-headers-amd64 for its newest"

say "unpacking the packages of the guest (about 40 s)"
mode=root
sources=()
for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
  # Of a mirror of one's own, the same is used for the guest.
  if [[ -s $file ]] && grep -q "$suite" "$file"; then
    sources=("$file")
    break
  fi
done
if ((EUID != 0)); then
  mode=unshare
  grep -q "^$(id -un):" /etc/subuid && command -v newuidmap >/dev/null ||
    fail "to build without root you need a row in /etc/subuid and the package uidmap:
  usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $(id -un)   (as root)
or build it as root once, and let others use it: VERBENA_LAB=FOLDER names where it is"
fi
# Through a tar file, because in the mode unshare files belong to users that aren't ours; only what
# root alone may read is lost then, and the guest needs none of it.
mmdebstrap --quiet --variant=minbase --mode="$mode" --include="$packages" \
  "$suite" "$folder/root.tar" "${sources[@]}" || fail "mmdebstrap failed, see above"
mkdir -p "$root"
tar -x -C "$root" --exclude='./dev/*' --no-same-owner -f "$folder/root.tar"
rm "$folder/root.tar"

say "the kernel and its modules"
dpkg-deb --fsys-tarfile "$folder/apt/linux-image-$release"_*.deb |
  tar -x -C "$root" --no-same-owner ./boot ./lib/modules
# Uncompressed, and entered through PVH: unpacking takes seconds where each instruction is emulated.
offset=$(grep -abom1 $'\xfd7zXZ' "$root/boot/vmlinuz-$release" | head -n 1 | cut -d: -f1)
[[ -n $offset ]] || fail "the kernel isn't compressed with xz: this script must learn its format"
# What follows the compressed kernel in its file is no xz, which is an error only to xz.
tail -c "+$((offset + 1))" "$root/boot/vmlinuz-$release" | xz -dcq >"$folder/vmlinux" 2>/dev/null ||
  [[ -s $folder/vmlinux ]] || fail "unpacking the kernel failed"
# Without signatures, which would be checked one emulated instruction after the other.
find "$root/lib/modules/$release" -name '*.ko' |
  grep -E '/(infiniband|9p|virtio|nvme|fs|net)/|crc' | xargs strip -g

say "siw from Debian's kernel source (about 25 s)"
dpkg-deb --fsys-tarfile "$folder"/apt/linux-source-6.1_*.deb |
  tar -xO ./usr/src/linux-source-6.1.tar.xz |
  tar -xJf - -C "$folder/source" --strip-components=4 --wildcards '*/drivers/infiniband/sw/siw'
make -s -C "/usr/src/linux-headers-$release" M="$folder/source/siw" CONFIG_RDMA_SIW=m modules \
  >"$folder/siw.log" 2>&1 || { cat "$folder/siw.log"; fail "siw doesn't compile, see above"; }
mkdir -p "$root/lib/modules/$release/extra"
strip -g -o "$root/lib/modules/$release/extra/siw.ko" "$folder/source/siw/siw.ko"
/sbin/depmod -b "$root" "$release"

say "the initial file system"
mkdir -p "$root"/{share,job,tools} "$root/opt/rdma-tests/tests"
cp -r "$root"/usr/share/doc/rdma-core/tests/. "$root/opt/rdma-tests/tests/"
gunzip -f "$root"/opt/rdma-tests/tests/*.gz
first=$folder/first
mkdir -p "$first"/{bin,mod,proc,sys,dev,ro,rw,new}
cp "$root/bin/busybox" "$first/bin/"
install -m 755 "$scripts/guest/first_init" "$first/init"
for module in 9p 9pnet_virtio virtio_pci overlay; do
  /sbin/modprobe -d "$root" -S "$release" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' | while read -r file; do
  cp "$file" "$first/mod/"
  basename "$file" >>"$first/mod/order"
done
(cd "$first" && find . | "$root/bin/busybox" cpio -o -H newc 2>/dev/null | gzip -1) >"$folder/initrd"

rm -rf "$folder/apt" "$folder/source" "$first"
echo "$release" >"$folder/release"
