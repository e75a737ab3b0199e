#!/usr/bin/env bash
# The suites of the box drivers on a kernel of Debian's whose only hierarchy of
# control groups is the unified one (cgroup v2), in a virtual machine. Without
# hardware virtualisation QEMU translates every instruction: slow; not part of CI.
#   scripts/cgroup2.sh [TESTS]     a regular expression of tests; default: the conformance suites
# AGON_CACHE names the cache with the boxes' root file system (make setup fills it).
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf 'cgroup2: %s\n' "$*" >&2; }
die() { printf 'cgroup2: %s\n' "$*" >&2; exit 1; }
tests=${1:-TestConformance}
# What outlasts its time on an emulated processor, where the start of a box alone takes most of a second of it.
declare -A skip=([runc]='parallel|cpu_time' [bwrap]='parallel|cpu_time' [runsc]='parallel|pids|escapes|cpu_time')
drivers=${CGROUP2_DRIVERS:-runc bwrap runsc}
cache=${AGON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/agon}
tree=$(find "$cache/rootfs" -maxdepth 1 -mindepth 1 -name 'debian-*' 2>/dev/null | head -n 1)
[ -n "$tree" ] || die "no root file system in $cache/rootfs: run make setup first"

missing=()
for p in qemu-system-x86:qemu-system-x86_64 busybox-static:busybox e2fsprogs:mke2fs runc:runc bubblewrap:bwrap; do
	command -v "${p#*:}" >/dev/null 2>&1 || missing+=("${p%%:*}")
done
if [ ${#missing[@]} -gt 0 ]; then
	say "installing ${missing[*]}"
	apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/agon-cgroup2.XXXXXX")
trap 'rm -rf "$dir"' EXIT

say "a kernel of Debian's"
kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p' | head -n 1)
(cd "$dir" && apt-get download -q "$kernel" >/dev/null 2>&1 && dpkg -x ./*.deb kernel) || die "no package $kernel"
modules=$(echo "$dir"/kernel/lib/modules/*)

say "an initial file system with the modules, and the system itself"
mkdir -p "$dir/initrd"/{bin,mods,proc,sys,dev,root}
cp "$(command -v busybox)" "$dir/initrd/bin/busybox"
for m in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk crc32c_generic libcrc32c crc16 mbcache jbd2 ext4 overlay; do
	find "$modules/kernel" -name "$m.ko" -exec cp {} "$dir/initrd/mods/" \;
done
cat >"$dir/initrd/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for m in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk crc32c_generic libcrc32c crc16 mbcache jbd2 ext4 overlay; do
	[ -f /mods/$m.ko ] && insmod /mods/$m.ko
done
while [ ! -b /dev/vda ]; do sleep 0.1; done
mount -t ext4 /dev/vda /root
ifconfig lo 127.0.0.1 up
umount /sys; mount --move /dev /root/dev; umount /proc
exec switch_root /root /suite/init
INIT
chmod 755 "$dir/initrd/init"
(cd "$dir/initrd" && find . | busybox cpio -o -H newc 2>/dev/null) | gzip -1 >"$dir/initrd.gz"

root=$dir/root
cp -a "$tree" "$root"
mkdir -p "$root/suite" "$root/cache/rootfs" "$root/usr/sbin"
cp -a "$tree" "$root/cache/rootfs/"
find "$cache" -maxdepth 1 \( -name 'runsc-*' -o -name 'entry-*' \) -exec cp -a {} "$root/cache/" \;
for bin in runc bwrap; do
	cp "$(command -v $bin)" "$root/usr/sbin/"
	ldd "$(command -v $bin)" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | while read -r lib; do
		mkdir -p "$root$(dirname "$lib")"
		[ -e "$root$lib" ] || cp -L "$lib" "$root$lib"
	done
done
for d in $drivers; do go test -c -o "$root/suite/$d.test" "./sandbox/$d"; done
cat >"$root/suite/init" <<INIT
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root AGON_CACHE=/cache
mount -t proc proc /proc; mount -t sysfs sys /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /dev/pts /dev/shm; mount -t devpts devpts /dev/pts; mount -t tmpfs tmpfs /dev/shm; mount -t tmpfs tmpfs /run
echo "suite: kernel \$(uname -r), hierarchy \$(stat -fc %T /sys/fs/cgroup), controllers \$(cat /sys/fs/cgroup/cgroup.controllers)"
cd /suite
ulimit -n 1048576
$(for d in $drivers; do echo "./$d.test -test.v -test.timeout 60m -test.run '$tests' -test.skip 'TestConformance/(${skip[$d]})\$' 2>&1 | sed 's/^/suite: $d: /'"; done)
echo 'suite: end'
sync; echo o >/proc/sysrq-trigger; sleep 60
INIT
chmod 755 "$root/suite/init"
truncate -s 4G "$dir/disk"
mke2fs -q -t ext4 -O ^metadata_csum -d "$root" "$dir/disk"
rm -rf "$root"

accel=tcg,thread=multi
if [ -w /dev/kvm ] && grep -qE 'vmx|svm' /proc/cpuinfo; then accel=kvm; fi
say "booting $kernel ($accel)" # how it went is read from the log, below
log=${CGROUP2_LOG:-$dir/log}
timeout "${CGROUP2_LIMIT:-3600}" qemu-system-x86_64 -accel $accel -cpu max -m 3072 -smp 2 -nographic -no-reboot -net none \
	-kernel "$dir"/kernel/boot/vmlinuz-* -initrd "$dir/initrd.gz" -append 'console=ttyS0 quiet panic=1 cgroup_no_v1=all' \
	-drive "file=$dir/disk,if=virtio,format=raw,cache=unsafe" </dev/null 2>&1 | stdbuf -o0 tr -d "\r" | tee "$log" | grep --line-buffered '^suite: ' || true
grep -q '^suite: end' "$log" || { tail -n 30 "$log" >&2; die "the machine did not come to its end"; }
for d in $drivers; do
	grep -q "^suite: $d: PASS" "$log" || die "$d: the suite does not pass"
done
say "the suites of $drivers pass on cgroup v2"
