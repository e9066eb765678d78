package postgres

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	embedded "github.com/fergusstrange/embedded-postgres"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

const (
	// EnvBin lists directories (as PATH does) that hold initdb and postgres; they are looked at first.
	EnvBin = "CDC_OUTBOX_TEST_PG_BIN"
	// EnvVersion is the version tests use that ask for none: a major ("17") or a full one ("17.7.0").
	EnvVersion = "CDC_OUTBOX_TEST_PG_VERSION"
	// EnvRepository is the base URL of a Maven repository or mirror to fetch server binaries from.
	EnvRepository = "CDC_OUTBOX_TEST_PG_REPOSITORY"
)

// fetchable maps a major version to the release that is fetched for it.
var fetchable = map[string]string{"14": "14.20.0", "15": "15.15.0", "16": "16.11.0", "17": "17.7.0", "18": "18.1.0"}

// preferred is what a machine without any installed server gets.
const preferred = "17"

// Binaries are one installed or fetched server.
type Binaries struct {
	Dir     string // holds initdb, postgres, pg_ctl
	Version string // as `postgres --version` prints it, e.g. "15.18"
}

// Major is the first number of the version.
func (b Binaries) Major() int {
	major, _, _ := strings.Cut(b.Version, ".")
	n, _ := strconv.Atoi(major)
	return n
}

// Find returns the server binaries of the version: "" ($CDC_OUTBOX_TEST_PG_VERSION, otherwise the newest installed,
// otherwise 17), a major such as "16", or a full one such as "16.11.0". Installed ones are preferred; others are
// fetched once and kept in the cache.
func Find(version string) (Binaries, error) {
	if version == "" {
		version = os.Getenv(EnvVersion)
	}
	installed := Installed()
	for _, b := range installed {
		if matches(b.Version, version) {
			return b, nil
		}
	}
	want := version
	if want == "" {
		want = preferred
	}
	if full, ok := fetchable[want]; ok {
		want = full
	}
	dir, err := fetch(want)
	if err != nil {
		return Binaries{}, fmt.Errorf("PostgreSQL %s is neither installed (found: %s) nor could it be fetched (%w): "+
			"install the server package, e.g. "+
			"postgresql-%s, or set %s to the directory that holds its initdb and postgres, or %s to a reachable "+
			"Maven mirror",
			want, describe(installed), err, strings.SplitN(want, ".", 2)[0], EnvBin, EnvRepository)
	}
	return probe(dir)
}

// Installed lists the servers found on this machine, newest first, after the servers of $CDC_OUTBOX_TEST_PG_BIN.
func Installed() []Binaries {
	var found []Binaries
	seen := map[string]bool{}
	add := func(dirs []string) {
		var group []Binaries
		for _, dir := range dirs {
			target, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
			if err != nil {
				continue
			}
			target = filepath.Dir(target) // /usr/local/bin/postgres is often a link; initdb lies beside its target
			if seen[target] {
				continue
			}
			seen[target] = true
			if b, err := probe(target); err == nil {
				group = append(group, b)
			}
		}
		slices.SortStableFunc(group, func(a, b Binaries) int { return b.Major() - a.Major() })
		found = append(found, group...)
	}
	add(filepath.SplitList(os.Getenv(EnvBin)))
	var usual []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/opt/postgresql*/bin",
	} {
		dirs, _ := filepath.Glob(pattern)
		usual = append(usual, dirs...)
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		usual = append(usual, strings.TrimSpace(string(out)))
	}
	add(append(usual, filepath.SplitList(os.Getenv("PATH"))...))
	return found
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+[.\d]*)`)

func probe(dir string) (Binaries, error) {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return Binaries{}, err
		}
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return Binaries{}, fmt.Errorf("%s/postgres does not run: %w", dir, err)
	}
	m := versionPattern.FindSubmatch(out)
	if m == nil {
		return Binaries{}, fmt.Errorf("%s/postgres --version printed %q", dir, out)
	}
	return Binaries{Dir: dir, Version: string(m[1])}, nil
}

// matches compares "15.18" with "", "15", "15.18" or the three-part "15.18.0" that the fetched archives carry.
func matches(have, want string) bool {
	return want == "" || have == want || strings.HasPrefix(have, want+".") || have+".0" == want
}

func describe(found []Binaries) string {
	if len(found) == 0 {
		return "none"
	}
	var parts []string
	for _, b := range found {
		parts = append(parts, b.Version+" in "+b.Dir)
	}
	return strings.Join(parts, ", ")
}

// fetch downloads and unpacks one release into the cache, once: processes that want the same one wait for each other,
// and what is unpacked appears under its name in one rename.
func fetch(version string) (string, error) {
	cache, err := scratch.CacheDir()
	if err != nil {
		return "", err
	}
	root := filepath.Join(cache, "postgres")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	dist := filepath.Join(root, fmt.Sprintf("%s-%s-%s", version, runtime.GOOS, runtime.GOARCH))
	lock, err := scratch.Lock(dist + ".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if _, err := os.Stat(filepath.Join(dist, "bin", "postgres")); err == nil {
		return filepath.Join(dist, "bin"), nil
	}
	work, err := os.MkdirTemp(root, ".fetch-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	unpacked := filepath.Join(work, "dist")
	if err := download(version, work, unpacked); err != nil {
		return "", err
	}
	if err := os.Chmod(unpacked, 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(unpacked, dist); err != nil {
		return "", err
	}
	return filepath.Join(dist, "bin"), nil
}

// download lets the library fetch and unpack. It has no call for that alone: Start goes on with initdb, which is made
// to fail by a locale that does not exist (as root it refuses anyway), so whether it worked is read off the unpacked
// files.
func download(version, work, unpacked string) error {
	p, err := port.Free()
	if err != nil {
		return err
	}
	cfg := embedded.DefaultConfig().Version(embedded.PostgresVersion(version)).Port(uint32(p)).
		Locale("none-only-fetching").
		CachePath(filepath.Join(work, "archive")).RuntimePath(filepath.Join(work, "run")).BinariesPath(unpacked).
		Logger(io.Discard)
	if url := os.Getenv(EnvRepository); url != "" {
		cfg = cfg.BinaryRepositoryURL(url)
	}
	defer http.DefaultClient.CloseIdleConnections() // which the library uses; its goroutines would count as left behind
	server := embedded.NewDatabase(cfg)
	err = server.Start()
	if err == nil { // initdb took the locale after all
		err = server.Stop()
	}
	if _, serr := os.Stat(filepath.Join(unpacked, "bin", "initdb")); serr != nil {
		if err == nil {
			err = errors.New("the archive holds no initdb")
		}
		return err
	}
	return nil
}
