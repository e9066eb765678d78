package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

// account is the operating system user the server runs as; nil: ours. initdb and postgres refuse to run as root, so
// root hands them to the user postgres, or nobody where there is none.
type account struct{ uid, gid int }

func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uerr := strconv.Atoi(u.Uid)
		gid, gerr := strconv.Atoi(u.Gid)
		if uerr == nil && gerr == nil {
			return &account{uid, gid}, nil
		}
	}
	return nil, fmt.Errorf("running as root, and neither user postgres nor nobody exists: PostgreSQL refuses to run " +
		"as root; create one of them or run the tests as another user")
}

// command prepares a server binary to run as the account, in dir.
func (a *account) command(dir, bin string, args ...string) *exec.Cmd {
	cmd := exec.Command(bin, args...)
	cmd.Dir = dir
	// PG* variables would redirect initdb's and the server's own settings; messages in another language would not be
	// recognized.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C", "TZ=UTC"}
	if a != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}}
	}
	return cmd
}

// own gives path to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// check runs the binaries as the account, so that an unreadable directory is named instead of "permission denied" from
// deep inside.
func (a *account) check(b Binaries, dir string) error {
	for _, name := range []string{"initdb", "postgres"} {
		out, err := a.command(dir, filepath.Join(b.Dir, name), "--version").CombinedOutput()
		if err == nil {
			continue
		}
		if barrier, ok := scratch.Reachable(b.Dir); a != nil && !ok {
			return fmt.Errorf("uid %d, which the server runs as, may not enter %s: make it executable for all, or "+
				"set CDC_OUTBOX_TEST_CACHE to a directory that every user may enter", a.uid, barrier)
		}
		return fmt.Errorf("%s/%s does not run: %w: %s", b.Dir, name, err, out)
	}
	return nil
}
