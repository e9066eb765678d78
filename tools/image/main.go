// Command image builds the container image for several platforms without a container engine: an OCI image layout, which
// skopeo, crane and other tools copy to a registry. It then reads the layout back and checks it.
//
//	image -out dist/image -version v0.1.0 -revision 0123abc -created 2026-11-23T00:00:00Z linux/amd64=bin/amd64
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	out := flags.String("out", "", "directory of the layout, which must not exist")
	var about about
	flags.StringVar(&about.version, "version", "unknown", "version of the program")
	flags.StringVar(&about.revision, "revision", "unknown", "commit that it was built from")
	created := flags.String("created", "1970-01-01T00:00:00Z", "time of the commit; equal input gives an equal image")
	ca := flags.String("ca", "/etc/ssl/certs/ca-certificates.crt", "file of CA certificates")
	start := flags.Bool("start", false, "start the image's program from its own files, which needs root")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if about.created, err = time.Parse(time.RFC3339, *created); err != nil {
		return err
	}
	if about.ca, err = os.ReadFile(*ca); err != nil {
		return err
	}
	var platforms []string
	binaries := map[string][]byte{}
	for _, arg := range flags.Args() {
		platform, path, found := strings.Cut(arg, "=")
		if !found || !strings.Contains(platform, "/") {
			return fmt.Errorf("%q is not OS/ARCHITECTURE=FILE", arg)
		}
		if binaries[platform], err = os.ReadFile(path); err != nil {
			return err
		}
		platforms = append(platforms, platform)
	}
	if err := write(*out, about, platforms, binaries); err != nil {
		return err
	}
	images, err := read(*out)
	if err != nil {
		return err
	}
	if err := check(images, about, binaries); err != nil {
		return err
	}
	if own := runtime.GOOS + "/" + runtime.GOARCH; *start && binaries[own] != nil {
		said, err := started(images[own], "version")
		if err != nil {
			return err
		}
		fmt.Printf("%s starts: %s", own, said)
	}
	fmt.Printf("%s: %s\n", *out, strings.Join(platforms, ", "))
	return nil
}
