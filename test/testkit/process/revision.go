package process

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

// ErrNoRevision says that there is no history with the revision, as in a shallow clone or an archive of the source.
var ErrNoRevision = errors.New("no history with the revision")

// BuildRevision builds the command as it was at a tag or revision of the repository that holds the working directory.
// The caller removes the directory that it returns with the binary's path.
func BuildRevision(revision string) (path string, dir *scratch.Dir, err error) {
	top, err := output(exec.Command("git", "rev-parse", "--show-toplevel"))
	if err != nil {
		return "", nil, fmt.Errorf("%w %s: %w", ErrNoRevision, revision, err)
	}
	git := func(args ...string) (string, error) {
		return output(exec.Command("git", append([]string{"-C", top}, args...)...))
	}
	if _, err := git("cat-file", "-e", revision+"^{commit}"); err != nil {
		return "", nil, fmt.Errorf("%w %s: %w", ErrNoRevision, revision, err)
	}
	if dir, err = scratch.NewDir("revision"); err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, dir.Remove())
		}
	}()
	source, archive := dir.Join("source"), dir.Join("source.tar")
	if _, err := git("archive", "--prefix=source/", "-o", archive, revision); err != nil {
		return "", nil, err
	}
	if _, err := output(exec.Command("tar", "-xf", archive, "-C", dir.Path)); err != nil {
		return "", nil, err
	}
	path = dir.Join("cdc-outbox-" + filepath.Base(revision))
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-X main.version="+revision, "-o", path,
		"./cmd/cdc-outbox")
	build.Dir = source
	_, err = output(build)
	return path, dir, err
}

// output runs a command and returns what it writes; its error holds what it says.
func output(cmd *exec.Cmd) (string, error) {
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, said.String())
	}
	return strings.TrimSpace(string(out)), nil
}
