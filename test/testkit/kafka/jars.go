package kafka

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

//go:embed pom.xml
var pom []byte

// versions maps short versions to the release that is fetched for them.
var versions = map[string]string{
	"": "4.1.0", "4": "4.1.0", "4.1": "4.1.0", "3": "3.9.1", "3.9": "3.9.1", "2": "2.8.2", "2.8": "2.8.2",
}

// EnvVersion is the version of clusters whose Options name none.
const EnvVersion = "CDC_OUTBOX_TEST_KAFKA"

// release is the release of a version ("4.1", "3.9" or a full one; default $CDC_OUTBOX_TEST_KAFKA, otherwise 4.1.0).
func release(version string) string {
	if version == "" {
		version = os.Getenv(EnvVersion)
	}
	if full, ok := versions[version]; ok {
		return full
	}
	return version
}

// Jars returns a directory with Kafka of the version, as release takes it, and all it needs. Maven fetches them once;
// they stay in the cache.
func Jars(version string) (string, error) {
	version = release(version)
	cache, err := scratch.CacheDir()
	if err != nil {
		return "", err
	}
	root := filepath.Join(cache, "kafka")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	dir := filepath.Join(root, version)
	lock, err := scratch.Lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", fmt.Errorf("Apache Kafka %s is not in %s and Maven, which fetches it, is not installed: install "+
			"the package maven", version, root)
	}
	work, err := os.MkdirTemp(root, ".fetch-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o644); err != nil {
		return "", err
	}
	cmd := exec.Command(mvn, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime",
		"-DoutputDirectory="+filepath.Join(work, "jars"), "-Dkafka.version="+version)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch Apache Kafka %s with Maven: %w (offline? point Maven's settings.xml to a "+
			"reachable mirror): %s", version, err, tail(out, 1500))
	}
	return dir, os.Rename(filepath.Join(work, "jars"), dir)
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// java finds a JVM that Kafka 4 runs on: $JAVA_HOME's, otherwise the PATH's.
func java() (string, error) {
	const need = "Apache Kafka needs Java 17 or newer: install a JRE, e.g. the package openjdk-17-jre-headless, or " +
		"set JAVA_HOME"
	bin := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		bin = filepath.Join(home, "bin", "java")
	}
	bin, err := exec.LookPath(bin)
	if err != nil {
		return "", errors.New(need)
	}
	out, err := exec.Command(bin, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s (%s -version: %w)", need, bin, err)
	}
	m := javaVersion.FindSubmatch(out)
	if m == nil {
		return bin, nil // an unusual vendor's; let it try
	}
	if major, _ := strconv.Atoi(string(m[1])); major < 17 {
		return "", fmt.Errorf("%s (%s is Java %s)", need, bin, m[1])
	}
	return bin, nil
}

func tail(b []byte, n int) string { return string(b[max(0, len(b)-n):]) }
