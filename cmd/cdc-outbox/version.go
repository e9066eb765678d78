package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/cmd/cdc-outbox/manual"
	"github.com/cdc-outbox/cdc-outbox/internal/base/build"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// version is set by the linker (-X main.version=…); without it the module's version or "unknown" is shown.
var version string

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version and what it was built from",
		Example: "  cdc-outbox version --json",
		Args:    noArguments,
		RunE:    func(*cobra.Command, []string) error { return a.printVersion(asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printVersion(asJSON bool) error {
	if asJSON {
		return a.printJSON(build.Of(version))
	}
	_, err := fmt.Fprintln(a.stdout, "cdc-outbox "+build.Of(version).String())
	return err
}

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(fault.Escaping{W: a.stdout})
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printLine prints a value as one line of JSON.
func (a *app) printLine(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(append(fault.Escaped(b), '\n'))
	return err
}

// manCommand is for who packs the program: the help has the same texts.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write manual pages, one for each command",
		Example: "  cdc-outbox man /usr/local/share/man/man1",
		Hidden:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fault.Usage("one directory is needed", cmd.Example[2:])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := manual.Write(args[0], cmd.Root(), build.Of(version).Version); err != nil {
				return fault.Usage(err.Error(), "Name a directory that exists.")
			}
			return nil
		},
	}
}
