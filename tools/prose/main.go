// Command prose checks the language of the repository: documentation, comments, help, findings, errors and log
// messages.
//
// It reports words of a private dialect and what to write instead, log and error messages that do not follow the style
// of CONTRIBUTING.md, log keys without a user, test names with underscores, and paragraphs that are wrapped unevenly or
// too wide. It uses the standard library only and looks at syntax, not at types, so it needs a few hundred milliseconds
// for the whole tree.
//
// Exceptions are lines of an allow-list, each with its reason. An exception that matches nothing is a finding itself.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

func main() {
	status, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	os.Exit(status)
}

type options struct {
	root, allow, rules, paths string
	summary, advice, wrap     bool
	exitZero                  bool
}

func run(args []string, out io.Writer) (int, error) {
	var o options
	flags := flag.NewFlagSet("prose", flag.ExitOnError)
	flags.StringVar(&o.root, "root", ".", "directory of the repository")
	flags.StringVar(&o.allow, "allow", "tools/prose/allow.txt", "allow-list, relative to the root")
	flags.StringVar(&o.rules, "rules", "", "report these rules only, separated by commas")
	flags.StringVar(&o.paths, "paths", "", "report findings below these paths only, separated by commas")
	flags.BoolVar(&o.advice, "advice", false, "report advice too, which does not fail the check by default")
	flags.BoolVar(&o.summary, "summary", false, "print numbers by rule and by directory in place of the findings")
	flags.BoolVar(&o.exitZero, "exit-zero", false, "succeed although there are findings")
	flags.BoolVar(&o.wrap, "wrap", false, "rewrap the paragraphs that the rules ragged and long report, in place")
	if err := flags.Parse(args); err != nil {
		return 2, err
	}

	names, err := repositoryFiles(o.root)
	if err != nil {
		return 2, err
	}
	if o.wrap {
		return 0, wrapFiles(o, names)
	}
	list, err := readAllowList(filepath.Join(o.root, o.allow), o.allow)
	if err != nil {
		return 2, err
	}
	found, err := check(o.root, names)
	if err != nil {
		return 2, err
	}
	found = selected(append(list.filter(found), list.unused()...), o)
	if o.summary {
		printSummary(out, found)
	} else {
		printFindings(out, found)
	}
	if len(found) > 0 && !o.exitZero {
		return 1, nil
	}
	return 0, nil
}

// repositoryFiles lists what git tracks or would track, so that build output and caches are left out.
func repositoryFiles(root string) ([]string, error) {
	out, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of %s: %w", root, err)
	}
	var names []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name != "" && !excluded(name) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names, nil
}

// excluded reports whether a file is not ours to phrase: recorded data and third-party code.
func excluded(name string) bool {
	for _, part := range []string{"internal/watch/page/assets/uplot/", "LICENSE", "go.sum"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return strings.Contains("/"+name, "/testdata/") && !strings.HasSuffix(name, ".md") &&
		!strings.HasSuffix(name, ".go")
}

// check reads every file and applies the rules to it.
func check(root string, names []string) ([]finding, error) {
	var (
		found []finding
		keys  = newLogKeys()
	)
	for _, name := range names {
		f, err := readFile(root, name)
		if err != nil {
			return nil, err
		}
		for _, p := range f.paragraphs {
			if !strings.HasPrefix(name, "tools/prose/") { // which quotes what it forbids
				found = append(found, checkWords(name, p)...)
			}
			found = append(found, checkWrapping(name, p)...)
		}
		if f.syntax != nil {
			found = append(found, checkMessages(name, f)...)
			found = append(found, checkTestNames(name, f)...)
			keys.add(name, f)
		}
	}
	return append(found, keys.findings()...), nil
}

// file is what the rules know about a file.
type file struct {
	paragraphs []paragraph
	syntax     *source // nil unless it is Go
	generated  bool    // not rewrapped here: its generator has to
}

func readFile(root, name string) (file, error) {
	path := filepath.Join(root, name)
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // deleted, but git's index still has it
		return file{}, nil
	case err != nil:
		return file{}, err
	}
	switch ext := filepath.Ext(name); {
	case ext == ".go":
		return readGo(name, content)
	case ext == ".md":
		return file{
			paragraphs: readMarkdown(string(content)),
			generated:  strings.Contains(string(content), "Do not edit."),
		}, nil
	case plainText(name, ext):
		return file{paragraphs: readPlain(string(content))}, nil
	}
	return file{}, nil
}

func plainText(name, ext string) bool {
	switch ext {
	case ".yml", ".yaml", ".js", ".html", ".css", ".sh", ".sql", ".mod", ".java", ".xml", ".conf", ".json":
		return true
	}
	return filepath.Base(name) == "Makefile" || filepath.Base(name) == "Dockerfile" || strings.HasPrefix(name, ".ci/")
}
