#!/usr/bin/env bash
# Plays boxes under cgroup v2 on a machine that has v1: a virtual machine with a
# kernel of its own (an emulated CPU: no KVM is needed) sees this machine's files
# read-only below an overlay in memory. Needs qemu-system-x86_64, and from Debian's
# archive the packages linux-image-*-amd64 and busybox-static, unpacked into DIR
# (dpkg -x PACKAGE DIR).
#
#   scripts/cgroup2.sh DIR runc 'TestAttacks/(memory_one|fork_bomb)$'
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:?DIR} driver=${2:?driver} tests=${3:?pattern of tests}
kernel=$(ls "$dir"/boot/vmlinuz-* | tail -n1)
modules=$(ls -d "$dir"/lib/modules/*/kernel | tail -n1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go test -c -o "$work/box.test" "./sandbox/$driver"
init=$work/initramfs
mkdir -p "$init"/{bin,m,proc,sys,dev,host,up,new}
cp "$dir/bin/busybox" "$init/bin/"
for m in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci netfs fscache 9pnet 9pnet_virtio 9p overlay; do
	find "$modules" -name "$m.ko" -exec cp {} "$init/m/" \;
done
cat >"$init/init" <<'EOF'
#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc p /proc; $B mount -t sysfs s /sys; $B mount -t devtmpfs d /dev
for m in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci netfs fscache 9pnet 9pnet_virtio 9p overlay; do [ -f /m/$m.ko ] && $B insmod /m/$m.ko; done
$B mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose host /host
$B mount -t tmpfs -o size=2500m t /up; $B mount -t tmpfs t /new
$B mkdir -p /new/proc /new/sys /new/dev /new/run /new/scratch
for d in bin sbin lib lib64; do $B ln -s usr/$d /new/$d; done
for d in usr etc var tmp root home opt srv work; do
	[ -d /host/$d ] || continue
	$B mkdir -p /new/$d /up/$d.u /up/$d.w
	$B mount -t overlay -o lowerdir=/host/$d,upperdir=/up/$d.u,workdir=/up/$d.w o /new/$d
done
for d in proc sys dev; do $B mount --move /$d /new/$d; done
$B mkdir -p /new/dev/shm /new/dev/pts; $B mount -t devpts devpts /new/dev/pts; $B mount -t tmpfs t /new/dev/shm
$B mount -t tmpfs -o size=1500m,mode=1777 t /new/scratch
$B mount -t cgroup2 c /new/sys/fs/cgroup
exec $B switch_root /new /bin/bash GUEST
EOF
sed -i "s#GUEST#$work/guest.sh#" "$init/init"
chmod +x "$init/init"
cat >"$work/guest.sh" <<EOF
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TMPDIR=/scratch
umask 022; ip link set lo up; date -s @$(date +%s) >/dev/null
mkdir /sys/fs/cgroup/init; echo \$\$ >/sys/fs/cgroup/init/cgroup.procs
echo "guest: kernel \$(uname -r), \$(stat -fc %T /sys/fs/cgroup) with \$(cat /sys/fs/cgroup/cgroup.controllers)"
cd "$PWD/sandbox/$driver" && timeout 900 "$work/box.test" -test.v -test.run '$tests'
echo "guest: tests ended with \$?"
echo o >/proc/sysrq-trigger; sleep 10
EOF
(cd "$init" && find . | "$dir/bin/busybox" cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initramfs.gz"
timeout 1200 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m 4096 -smp 2 -nographic -no-reboot -kernel "$kernel" -initrd "$work/initramfs.gz" \
	-append "console=ttyS0 cgroup_no_v1=all panic=-1 quiet" -virtfs "local,path=/,mount_tag=host,security_model=none,readonly=on" </dev/null 2>&1 |
	tr -d '\r' | tee "$work/out" | grep --line-buffered -E '^(guest:|=== RUN|--- |    --- |ok|FAIL|PASS|.*_test\.go|.*\.go:[0-9]+:)' || true
grep -q '^guest: tests ended with 0$' "$work/out"
