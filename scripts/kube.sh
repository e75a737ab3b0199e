#!/usr/bin/env bash
# Installs deploy/chart on a real Kubernetes of one node and plays an arena in its pods, while
# validators are scaled from 1 to 3 to 0 and the servers are rolled. API server, scheduler,
# controllers, kube-proxy, kubelet, kubectl and helm are built from the module proxy, KEDA's form of
# its objects is read there; etcd, containerd, runc and the network plugins are Debian's. All of it runs in namespaces of its own
# (mounts, network, processes) and ends with them. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf 'kube: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
[ "$(id -u)" = 0 ] || die "run it as root: a kubelet mounts, and makes cgroups and networks"
for tool in etcd containerd ctr runc iptables ip conntrack mmdebstrap jq; do
	command -v $tool >/dev/null || die "$tool is missing (Debian: apt-get install etcd-server containerd containernetworking-plugins runc iptables iproute2 conntrack mmdebstrap jq)"
done
[ -x /usr/lib/cni/ptp ] || die "the network plugins are missing (Debian: apt-get install containernetworking-plugins)"
KUBE_POSTGRES=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -x "$KUBE_POSTGRES/initdb" ] || die "PostgreSQL is not installed (Debian: apt-get install postgresql)"

version=$(sed -n 's|^\tk8s.io/kubernetes ||p' interop/kube/go.mod)
tools=$PWD/.cache/tools/kube-$version
export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"
if [ ! -x "$tools/helm" ]; then
	say "building Kubernetes $version and helm: half an hour on two busy cores"
	minor=${version#v1.}
	set -- # what a release says of itself
	for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		set -- "$@" -X "$package.gitVersion=$version" -X "$package.gitMajor=1" -X "$package.gitMinor=${minor%.*}"
	done
	go build -C interop/kube -p "${KUBE_BUILDS:-1}" -ldflags "-s -w $*" -o "$tools/control" ./control
	go build -C interop/kube -p "${KUBE_BUILDS:-1}" -ldflags '-s -w' -o "$tools/helm" helm.sh/helm/v3/cmd/helm
fi
go build -C interop/kube -ldflags '-s -w' -o "$tools/pause" ./pause
go test -C interop/kube -c -o "$tools/kube.test" .
[ -e dist/agon-kube.tar ] && [ "${KUBE_IMAGE_KEEP:-0}" != 0 ] || { TAG=agon.test/agon:kube scripts/image.sh && mv dist/agon-image.tar dist/agon-kube.tar; }

keda=$(go mod download -json github.com/kedacore/keda/v2@v2.17.2 | jq -er .Dir)/config/crd/bases/keda.sh_scaledobjects.yaml
sha256sum --check --quiet <<<"e0975e421cc9ff171ffd374057afd1507d9355cf6de590844a843ab4ae664416  $keda"

KUBE_DIR=$(mktemp -d "${TMPDIR:-/var/tmp}/agon-kube-XXXXXX")
KUBE_CGROUP=/agon-kube-$$
export KUBE_POSTGRES KUBE_DIR KUBE_CGROUP KUBE_VERSION=$version KUBE_CONTROL=$tools/control KUBE_HELM=$tools/helm KUBE_PAUSE=$tools/pause KUBE_AGON=$PWD/bin/agon \
	KUBE_KEDA=$keda KUBE_HOSTS=$KUBE_DIR/hosts KUBE_IMAGE=$PWD/dist/agon-kube.tar KUBE_CHART=$PWD/deploy/chart KUBE_SAMPLES=$PWD/kinds/coding/data/samples
chmod 711 "$KUBE_DIR"
# A kubelet wants its cgroup in each hierarchy; those of pods stand below it.
hierarchies=$(awk '$3 == "cgroup" || $3 == "cgroup2" {print $2}' /proc/mounts)
for h in $hierarchies; do mkdir -p "$h$KUBE_CGROUP"; done
points=(/var/lib/kubelet /var/lib/cni)
cp /etc/hosts "$KUBE_HOSTS"
mkdir -p "${points[@]}" "$KUBE_DIR/kubelet" # what is mounted there is seen inside of the namespace only
end() {
	if [ "${KUBE_KEEP:-0}" = 0 ]; then rm -rf "$KUBE_DIR"; else say "logs are in $KUBE_DIR"; fi
	for h in $hierarchies; do find "$h$KUBE_CGROUP" -depth -type d -exec rmdir {} \; || say "some of $h$KUBE_CGROUP stays"; done
	rmdir --ignore-fail-on-non-empty "${points[@]}"
}
trap end EXIT
# In the namespaces: what a kubelet would set for the whole machine it sets in a file.
unshare --mount --net --pid --fork --kill-child --mount-proc bash -euc '
	mount --make-rshared /
	mount --bind "$KUBE_DIR/kubelet" /var/lib/kubelet
	mount --make-shared /var/lib/kubelet
	mount --bind "$KUBE_HOSTS" /etc/hosts
	for dir in /run /var/log /var/lib/cni; do mount -t tmpfs tmpfs $dir; done
	for key in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
		file=$KUBE_DIR/sysctl-$(echo "${key%=*}" | tr / -)
		echo "${key#*=}" >"$file"
		mount --bind "$file" "/proc/sys/${key%=*}"
	done
	ip link set lo up
	ip link add node type veth peer name node0 && ip link set node0 up
	ip addr add 10.97.0.1/32 dev node
	ip link set node up
	ip route add default dev node
	echo 1 >/proc/sys/net/ipv4/ip_forward
	exec "$(dirname "$KUBE_CONTROL")/kube.test" -test.v -test.timeout=60m'
