package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/nearest"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

// app is the commands' view of the world outside.
type app struct {
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	environ []string

	hungUp atomic.Pointer[func()] // SIGHUP's action; nil: SIGTERM's

	began bool // a command's own work began: from there on errors are not about usage
	// the command's result so far, and the remedy for the rest, for the operator who interrupts it; empty if it
	// cannot tell
	left string
}

// execute runs a command line and returns the exit code. An error is printed here, once.
func (a *app) execute(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	cmd, err := root, unknownCommand(root, args)
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	if err == nil {
		return 0
	}
	err = a.interrupted(ctx, cmd, err)
	if !a.began {
		var known *fault.Error
		if !errors.As(err, &known) {
			err = fault.Usage(err.Error(), "cdc-outbox --help lists the commands")
		}
	}
	var said reported
	if !errors.As(err, &said) {
		fmt.Fprintln(a.stderr, "cdc-outbox: "+fault.PrintableLines(err.Error()))
	}
	return fault.KindOf(err).ExitCode()
}

// root builds the commands. It gives cobra functions in place of templates: a program that links text/template keeps
// every exported method of every type, because a template could call it.
func (a *app) root() *cobra.Command {
	var asked bool // for the version
	root := &cobra.Command{
		Use:   "cdc-outbox",
		Short: "Relay a Postgres outbox table to Kafka",
		Long: `cdc-outbox tails Postgres' write-ahead log and turns every committed row of the outbox table into a Kafka
record. The replication slot moves only over what Kafka has acknowledged.`,
		Example: `  cdc-outbox setup --table --dry-run
  cdc-outbox check --config cdc-outbox.yaml
  cdc-outbox run --config cdc-outbox.yaml`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              knownCommand,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRun:  func(*cobra.Command, []string) { a.began = true },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asked {
				return a.printVersion(false)
			}
			_, _ = io.WriteString(a.stderr, cmd.UsageString())
			return fault.Usage("no command is named", "cdc-outbox run starts the connector")
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(flagError)
	root.Flags().BoolVarP(&asked, "version", "v", false, "print the version")
	config.AddFlags(root.PersistentFlags())
	// Over forty flags would bury each command's own: the help of the command config lists them.
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = f.Name != config.FlagConfig })
	usage := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		err := usage(cmd)
		if cmd.Name() != "config" {
			cmd.Print("\nEvery key of the configuration is a flag, too, such as --kafka-brokers: " +
				"cdc-outbox config --help lists them.\n")
		}
		return err
	})
	root.AddCommand(a.runCommand(), a.checkCommand(), a.setupCommand(), a.teardownCommand(), a.statusCommand(),
		a.slotCommand(), a.rowCommand(), a.pauseCommand(), a.resumeCommand(),
		a.findCommand(), a.previewCommand(), a.eventsCommand(),
		a.repairCommand(), a.replayCommand(), a.pruneCommand(), a.monitorCommand(), a.deadLetterCommand(),
		a.auditCommand(), a.forwardCommand(), a.schemaCommand(),
		a.migrateCommand(), a.configCommand(), a.versionCommand(), a.manCommand())
	return root
}

// unknownCommand refuses a word that is not a command if cobra would not: beside --help, or after help, it prints the
// help of the command before the word.
func unknownCommand(root *cobra.Command, args []string) error {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	if len(args) > 0 && args[0] == "help" {
		args = args[1:]
	}
	if len(args) > 0 && strings.HasPrefix(args[0], "__") { // cobra's own, which shells ask
		return nil
	}
	cmd, rest, err := root.Find(args)
	if err == nil && cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return knownCommand(cmd, rest)
	}
	return err
}

// knownCommand refuses a word that is not a command. It is repeated only when it looks like one: it may be a connection
// string that lost its flag.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	next := cmd.CommandPath() + " --help lists the commands"
	if strings.Trim(args[0], "abcdefghijklmnopqrstuvwxyz-") != "" || len(args[0]) > 20 {
		return fault.Usage("the first word is not a command", next)
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	slices.Reverse(names) // of two names that are equally near, run is meant rather than row
	what := fmt.Sprintf("unknown command %q", args[0])
	if near := nearest.Name(args[0], names); near != "" {
		what += " (did you mean " + near + "?)"
	}
	return fault.Usage(what, next)
}

// noArguments is cobra.NoArgs without repeating the argument, for the same reason.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fault.Usage(fmt.Sprintf("%s takes no arguments, only flags", cmd.CommandPath()),
		cmd.CommandPath()+" --help lists them")
}

// flagError words pflag's errors without the value, which may be a secret.
func flagError(cmd *cobra.Command, err error) error {
	next := cmd.CommandPath() + " --help lists the flags, cdc-outbox config --help lists the flags of the configuration"
	var missing *pflag.NotExistError
	if errors.As(err, &missing) {
		name := missing.GetSpecifiedName()
		what := "unknown flag --" + name
		if missing.GetSpecifiedShortnames() != "" {
			return fault.Usage("unknown flag -"+name, next)
		}
		if now := config.RenamedFlag(name); now != "" {
			return fault.Usage("flag --"+name+" was renamed to --"+now, next)
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := nearest.Name(name, names); near != "" {
			what += " (did you mean --" + near + "?)"
		}
		return fault.Usage(what, next)
	}
	var noValue *pflag.ValueRequiredError
	if errors.As(err, &noValue) {
		return fault.Usage("flag --"+noValue.GetSpecifiedName()+" needs a value", next)
	}
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		return fault.Usage("flag --"+bad.GetFlag().Name+" has a value it cannot take", next)
	}
	return fault.Usage("a flag is not written as --name or --name=value", next)
}

// terminal reports whether the stream is one a person looks at.
func terminal(stream any) bool {
	f, ok := fileOf(stream)
	return ok && term.IsTerminal(int(f.Fd()))
}

// fileOf is the file that a stream writes to, also if a status line is drawn in front of it.
func fileOf(stream any) (*os.File, bool) {
	if c, ok := stream.(clearing); ok {
		stream = c.Writer
	}
	f, ok := stream.(*os.File)
	return f, ok
}

// variable looks an environment variable up.
func (a *app) variable(name string) string {
	value := ""
	for _, e := range a.environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}
