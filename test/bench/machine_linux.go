package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// windowEdge is the position in a connection up to which its other end takes bytes: what it has acknowledged and its
// receive window.
func windowEdge(raw syscall.RawConn) (edge uint64, err error) {
	cerr := raw.Control(func(fd uintptr) {
		var info *unix.TCPInfo
		if info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			edge = info.Bytes_acked + uint64(info.Snd_wnd)
		}
	})
	return edge, errors.Join(err, cerr)
}

// ownLike gives a file the owner of another.
func ownLike(other, path string) error {
	info, err := os.Stat(other)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return os.Chown(path, int(owner.Uid), int(owner.Gid))
}

// namespaceCommand runs this program in a network namespace of its own.
func namespaceCommand(args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	return cmd, nil
}

// ethernetMTU is for the loopback interface of the namespace. With its own, 65,536 bytes, a segment is larger than the
// buffers: each waits for an acknowledgement that the receiver delays by 40 ms, which no network does.
const ethernetMTU = 1500

// enterNamespace brings the loopback interface of a new network namespace up and limits its TCP buffers.
func enterNamespace() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("loopback interface: %w", err)
	}
	ifr.SetUint32(ethernetMTU)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFMTU, ifr); err != nil {
		return fmt.Errorf("MTU of the loopback interface: %w", err)
	}
	for name, value := range map[string]string{"tcp_wmem": "4096 16384 65536", "tcp_rmem": "4096 32768 65536"} {
		if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0); err != nil {
			return err
		}
	}
	return nil
}

// pause sleeps in the kernel: the Go runtime's timers are late by up to a millisecond.
func pause(d time.Duration) {
	if d > 0 {
		ts := syscall.NsecToTimespec(d.Nanoseconds())
		_ = syscall.Nanosleep(&ts, nil) // ends early on a signal, which costs a little precision
	}
}

// settle waits until the kernel has written its dirty pages.
func settle() { unix.Sync() }
