package sandboxtest

import (
	"time"

	"github.com/agon-arena/agon/sandbox"
)

// Attacks returns every attack. A row without Needs holds under every driver.
func Attacks() []Attack {
	ends := func(name, tries, defence, outcome string) Attack {
		return Attack{Name: name, Tries: tries, Defence: defence, Outcome: outcome, End: true}
	}
	with := func(a Attack, edit func(*Attack)) Attack { edit(&a); return a }
	needs := func(a Attack, n ...string) Attack { a.Needs = n; return a }
	ended := func(a Attack, must bool, limits ...string) Attack { a.Must, a.Limits = must, limits; return a }
	small := func(sp *sandbox.Spec) { sp.Limits.MemoryBytes = 128 << 20 }
	return []Attack{
		// processes, memory, disk, time
		needs(ended(ends("fork_bomb", "fork 5000 times", "process limit", "EAGAIN at the limit, or ended by the memory limit"), false, "pids", "memory"), "pids"),
		needs(ended(ends("thread_bomb", "start 3000 threads", "process limit counts threads", "refused at the limit"), false, "pids", "memory"), "pids"),
		with(needs(ended(Attack{Name: "memory_one", Tries: "take all memory", Defence: "memory limit, no swap", Outcome: "ended by the memory limit"}, true, "memory"), "memory"),
			func(a *Attack) { a.edit = small }),
		with(needs(ended(Attack{Name: "memory_many", Tries: "take all memory with 20 processes", Defence: "one limit for the whole box", Outcome: "ended by the memory limit"}, true, "memory"), "memory"),
			func(a *Attack) { a.edit = small; a.wall = 15 * time.Second }),
		needs(ended(ends("memory_files", "fill /dev/shm and /tmp", "sizes of memory file systems", "no space left"), false, "memory", "disk"), "disk"),
		needs(ended(ends("disk_fill", "write 2 GB, and outside its mounts", "disk quota, read-only root", "no space left; the rest is read-only"), false, "disk"), "disk"),
		needs(ended(ends("inodes", "make 50,000 files in each writable place", "inode quota", "no space left"), false, "disk"), "inodes"),
		needs(ended(ends("open_unlinked", "hide used space in a deleted open file", "quota counts blocks, not names", "no space left; an empty result is a bad result"), false, "disk"), "disk"),
		ended(ends("deep_directories", "nest 3,000 directories", "removal that needs no path", "the box closes and is removed"), false, "disk"),
		ends("hostile_names", "names with line ends, terminal codes, options, shut directories", "no shell, no listing of foreign names", "the box closes and is removed"),
		needs(ended(Attack{
			Name: "cpu_spin", Tries: "spin in 5 processes", Defence: "CPU time budget of the cgroup", Outcome: "ended by the CPU limit",
			edit: func(sp *sandbox.Spec) { sp.Limits.CPUMS = 1500 },
		}, true, "cpu"), "cpu_time"),
		ends("priority", "real-time scheduling", "no capability; gVisor has no such classes of the host", "refused, or without effect on the host"),
		with(needs(ended(Attack{Name: "oom_score", Tries: "make others the kernel's first choice when memory ends", Defence: "lowering needs a capability; the limit is the box's own", Outcome: "ended by the memory limit"}, true, "memory"), "memory"),
			func(a *Attack) { a.edit = small }),
		with(ended(Attack{Name: "unkillable", Tries: "ignore all signals and fork daemons past the wall limit", Defence: "SIGKILL to the whole box, frozen or looped", Outcome: "ended by the wall limit, nothing runs on"}, true, "wall"),
			func(a *Attack) { a.wall = time.Second }),
		with(ends("late_writer", "let a daemon improve the result after the command ended", "the box is stopped before a layer is handed on", "the handed-on result does not change"),
			func(a *Attack) { a.check = checkStopped }),
		ended(Attack{Name: "output_flood", Tries: "print without end", Defence: "bounded reader that goes on draining", Outcome: "ended by the output limit"}, true, "output"),
		ends("output_hold", "keep the output open after the end", "reading ends with the command", "the command returns at once"),
		// results
		with(ends("results", "results that are links, FIFOs, sockets, devices, directories, sparse files", "os.Root, regular files only, size limit, never blocks", "refused, none hangs"),
			func(a *Attack) {
				a.check = refuses("/work/link", "/work/up", "/work/proc", "/work/root/etc/passwd", "/work/fifo", "/work/sock", "/work/dir", "/work/sparse", "/work/dev", "/work/mem", "/work/none", "/etc/passwd")
			}),
		with(ends("result_race", "swap the result for a link while it is read", "type checked on the open descriptor", "only its own bytes are read"),
			func(a *Attack) { a.during = raceReader }),
		ends("hard_links", "hard links to files of the root", "other file system, protected links", "refused"),
		with(ends("archive_bomb", "a result that grows a thousandfold, or leads out, when unpacked", "results are bytes: the host unpacks none; rootfs tests unpacking", "read as bytes, within the limit"),
			func(a *Attack) { a.check = refuses("/work/l/x") }),
		with(ends("fake_markers", "print and write what a harness would", "only the exit and the judge's own words count", "exit code 7, nothing else"),
			func(a *Attack) { a.check = code(7) }),
		with(ends("fake_host_failure", "look like a failing host", "fault comes from outside the box only", "exit code 137, not lost"),
			func(a *Attack) { a.check = code(137) }),
		ends("terminal_codes", "terminal control codes in output", "output is bytes; the command line strips, pages escape", "delivered as bytes within the limit"),
		// privilege
		ends("setuid", "become root: set-id files, su, chown", "no set-id files, nosuid, no_new_privs, no capability", "stays uid 1000"),
		ends("capabilities", "have a capability, lack the filter", "all five sets empty, no_new_privs, filter", "none"),
		ends("kernel_calls", "30 calls for mounts, namespaces, modules, tracing, bpf, io_uring …", "allow-list filter", "refused"),
		ends("other_abis", "32-bit and x32 calls", "filter refuses other ABIs", "refused or killed"),
		ends("keyrings", "kernel keys, which have no namespace", "filter", "refused"),
		ends("memory_of_others", "read and write other users' processes", "another user, filter, pid namespace", "refused"),
		ends("freed_memory", "read what other processes have freed", "the kernel zeroes pages before it hands them out", "zeroes"),
		{Name: "own_memory", Tries: "patch the shared interpreter through its own memory", Defence: "private pages, read-only root", Outcome: "the file does not change"},
		with(ends("first_process", "read, stop, slow, steer or imitate what starts the commands", "another user's process, or hidden and filtered", "refused; the next command starts"),
			func(a *Attack) { a.check = checkStarts }),
		ends("signal_everything", "signal every pid it can name", "pid namespace, first process of another user", "harms itself only, not lost"),
		ends("memfd_exec", "run code that has no file", "nothing is gained by it: same user, same filter", "uid 1000"),
		ends("core_pattern", "write kernel settings", "read-only or absent", "refused"),
		ends("clocks", "set clock and host name", "filter", "refused; time is measured outside"),
		ends("devices", "open devices of the host", "minimal /dev, device cgroup or own kernel", "absent"),
		ends("terminal_injection", "push input into a terminal", "no terminal: pipes only", "refused"),
		ends("bind_interpreter", "plant code for later commands and boxes", "read-only root", "refused"),
		with(ends("move_mount_points", "move or replace mount points", "mounted before anything hostile runs", "mounts stay"),
			func(a *Attack) {
				a.edit = func(sp *sandbox.Spec) {
					sp.Mounts = append(sp.Mounts, sandbox.Mount{Kind: sandbox.MountScratch, Target: "/work/inner"})
				}
			}),
		// network
		ends("network", "reach the internet, metadata, host, DNS", "loopback-only namespace or stack", "unreachable at once"),
		ends("sockets", "every other socket family and protocol", "filter on family and protocol", "refused"),
		ends("vsock", "reach the hypervisor, which no namespace hides", "filter on family", "refused"),
		ends("abstract_sockets", "abstract sockets of the host, docker.sock", "network namespace, not mounted", "refused"),
		ends("port_hijack", "listen where the door listens", "the listener exists before the box", "address in use; the gateway answers"),
		ends("forged_session", "be another session", "headers set outside, dropped from inside", "its own session"),
		ends("door_protocols", "CONNECT, upgrades, absolute URLs, smuggling, huge headers", "HTTP/1.1 only, one target, bounds", "refused or sent to the gateway"),
		with(ended(ends("slow_loris", "hold 300 unfinished requests", "bounded connections and header time, per box", "other boxes are served"), true, "wall"),
			func(a *Attack) { a.wall = 4 * time.Second; a.check = checkServed }),
		ends("box_link", "speak to the relay of gVisor boxes", "doors by their number, dials by a secret key, other words closed", "no answer"),
		// information
		ends("environment", "read the host's environment, files, processes", "clean environment, pid namespace, mounts by descriptor, covered files", "nothing of the host but what uname(2) says"),
		with(ended(ends("covert_files", "leave words, keys and locks for other boxes (read by covert_reader)", "nothing writable is shared; ipc namespace; locks per mount", "the next box sees nothing"), true, "wall"),
			func(a *Attack) { a.wall = 6 * time.Second; a.check = second("covert_reader") }),
		// kernel memory
		ended(Attack{Name: "huge_arguments", Tries: "arguments and environments of 100 MB", Defence: "kernel bounds, memory limit", Outcome: "refused, or ends itself"}, false, "memory", "pids"),
		ended(ends("descriptors", "open 100,000 files", "descriptor limit", "refused at the limit"), false),
		ended(ends("inotify_flood", "200,000 watches", "descriptor limit, per-user counts of the box's own namespace", "bounded"), false, "memory"),
		ended(ends("epoll_flood", "50,000 epolls, events, sockets", "descriptor limit", "refused at the limit"), false),
		ended(ends("pipes", "fill pipes", "descriptor limit, memory limit", "refused at the limit"), false, "memory"),
		with(needs(ended(Attack{Name: "shared_memory", Tries: "6 GB of System V memory", Defence: "ipc namespace, memory limit", Outcome: "ended by the memory limit or refused"}, false, "memory"), "memory"),
			func(a *Attack) { a.edit = small }),
		with(needs(ended(Attack{Name: "socket_memory", Tries: "fill TCP and UDP sockets, accepted or not, with more than the box's memory", Defence: "cgroup, sizes and number of sockets of the box's network", Outcome: "refused, or ended by the memory limit"}, false, "memory"), "memory"),
			func(a *Attack) { a.edit, a.during, a.alone = small, socketWatch, true }),
	}
}
